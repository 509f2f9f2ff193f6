#include "cli/train/train_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

TrainOptions TwoSpecs() {
  TrainOptions options;
  options.model = {"m", {{"a", {4, 3}}, {"b", {5}}}};
  options.scale = 0.5;
  options.compute_ms = 2;
  options.specs = {"none", "bf16"};
  options.round_steps = {2, 3};
  options.command_line = "gradwire train ...";
  return options;
}

BlockResult BlockOf(int round, int spec) {
  const double ms = spec == 0 ? 10 : 5;
  return {.block = {.round = round, .spec = spec, .steps = 2}, .steps = {{99, 1}, {ms, 1}}};
}

std::string PrintedBy(const std::function<void()>& print) {
  testing::internal::CaptureStdout();
  print();
  return testing::internal::GetCapturedStdout();
}

TEST(TrainReport, HeaderTellsTheModelAsItIsRun) {
  const TrainOptions options = TwoSpecs();
  TrainReport report(options);
  const std::string text = PrintedBy([&] { report.PrintHeader({}); });
  EXPECT_NE(text.find("m scaled by 0.5: 2 tensors, 17 elements"), text.npos) << text;
  EXPECT_NE(text.find("compute 2 ms on the device; blocks of each spec: 2 of 2 to 3 steps"),
            text.npos)
      << text;
}

TEST(TrainReport, RowsComeOnceTheyCanBeCompared) {
  const TrainOptions options = TwoSpecs();
  TrainReport report(options);
  const auto added = [&](int round, int spec) {
    return PrintedBy([&] { report.Add(BlockOf(round, spec)); });
  };
  EXPECT_EQ(added(0, 1), "");
  EXPECT_EQ(added(0, 0), "");
  // All of bf16 is there, but not what it is compared with.
  EXPECT_EQ(added(1, 1), "");
  const std::string rows = added(1, 0);
  EXPECT_NE(rows.find("none"), rows.npos) << rows;
  EXPECT_NE(rows.find("0.500  0.500..0.500\n"), rows.npos) << rows;
}

TEST(TrainReport, FilesHaveAllRows) {
  TrainOptions options = TwoSpecs();
  options.json_path = "-";
  TrainReport report(options);
  EXPECT_EQ(PrintedBy([&] {
              report.PrintHeader({});
              for (const int round : {0, 1}) {
                for (const int spec : {0, 1}) report.Add(BlockOf(round, spec));
              }
            }),
            "");
  const nlohmann::json json = nlohmann::json::parse(report.Json({}));
  EXPECT_EQ(json["model"]["elems"], 17);
  EXPECT_EQ(json["model"]["scale"], 0.5);
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][1]["ratio"], 0.5);
  const std::string csv = report.Csv();
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

}  // namespace
}  // namespace gradwire
