#include "cli/train/train_row.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

// A block whose first step is slow; a third of every step computes.
BlockResult BlockOf(int round, const std::vector<double>& step_ms) {
  BlockResult result = {.block = {.round = round, .steps = static_cast<int>(step_ms.size()) + 1},
                        .first_step = 10,
                        .wire_bytes = 1000.0 * (round + 1),
                        .relerr = 0.5,
                        .codecs = {{"bf16", 3}}};
  result.steps.push_back({.step_ms = 1000, .compute_ms = 900});
  for (const double ms : step_ms) result.steps.push_back({.step_ms = ms, .compute_ms = ms / 3});
  return result;
}

TrainRow SampleRow() {
  const std::vector<BlockResult> base = {BlockOf(0, {12, 12}), BlockOf(1, {30, 30})};
  return MakeRow("a(b=1,c=2)", {BlockOf(0, {3, 6, 9}), BlockOf(1, {12, 15, 18})}, &base, 1);
}

TEST(MakeRow, LeavesTheFirstStepOfEveryBlockOut) {
  const TrainRow row = SampleRow();
  EXPECT_DOUBLE_EQ(row.step_ms, 10.5);
  EXPECT_DOUBLE_EQ(row.step_p10_ms, 4.5);
  EXPECT_DOUBLE_EQ(row.step_p90_ms, 16.5);
  EXPECT_DOUBLE_EQ(row.compute_ms, 3.5);
  EXPECT_DOUBLE_EQ(row.exposed_ms, 7);
  EXPECT_DOUBLE_EQ(row.wire_bytes, 1500);
}

TEST(MakeRow, ComparesBlocksOfARound) {
  const TrainRow row = SampleRow();
  EXPECT_DOUBLE_EQ(row.ratio.value, 0.5);
  ASSERT_TRUE(row.ratio.interval);
  EXPECT_DOUBLE_EQ(row.ratio.interval->high, 0.5);
}

TEST(TrainRowJson, HasEveryStep) {
  const auto json = nlohmann::json::parse(TrainRowJson(SampleRow()).dump());
  EXPECT_EQ(json["spec"], "a(b=1,c=2)");
  EXPECT_EQ(json["step_ms"], 10.5);
  ASSERT_EQ(json["blocks"].size(), 2u);
  EXPECT_EQ(json["blocks"][1]["step_ms"], (std::vector<double>{1000, 12, 15, 18}));
  EXPECT_EQ(json["blocks"][0]["compute_ms"], (std::vector<double>{900, 1, 2, 3}));
  EXPECT_EQ(json["blocks"][0]["codecs"]["bf16"], 3);
  EXPECT_EQ(json["ratio_low"], json["ratio"]);
}

TEST(TrainRowJson, TheFirstSpecHasNoInterval) {
  const TrainRow row = MakeRow("none", {BlockOf(0, {3}), BlockOf(1, {4})}, nullptr, 1);
  EXPECT_TRUE(nlohmann::json::parse(TrainRowJson(row).dump())["ratio_low"].is_null());
  EXPECT_TRUE(TrainTableRow(row, 4).ends_with("1.000  -"));
}

TEST(TrainCsv, LinesHaveTheColumnsOfTheHeader) {
  const std::string header = TrainCsvHeader(), line = TrainCsvLine(SampleRow());
  // The quoted spec holds one comma more.
  EXPECT_EQ(std::count(header.begin(), header.end(), ',') + 1,
            std::count(line.begin(), line.end(), ','));
  EXPECT_TRUE(line.starts_with("\"a(b=1,c=2)\",6,10.500000,")) << line;
}

TEST(TrainTable, NamesAndValuesEndInOneColumn) {
  const std::string header = TrainTableHeader(10), row = TrainTableRow(SampleRow(), 10);
  EXPECT_EQ(header.find("ratio") + 5, row.find("0.500..") - 2);
  EXPECT_EQ(header.find("step_ms") + 7, row.find("10.500") + 6);
}

}  // namespace
}  // namespace gradwire
