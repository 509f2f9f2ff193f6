#include "cli/trace/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

using Json = nlohmann::json;

// A step of 100 us that waits twice; nanoseconds begin at 1,000,000.
RecordedRun SampleRun() {
  const auto at = [](int64_t us) { return 1'000'000 + 1000 * us; };
  const std::vector<Span> spans = {
      {SpanKind::kEncode, at(30), at(35), 0},   {SpanKind::kBlocked, at(40), at(60), 0},
      {SpanKind::kWire, at(35), at(70), 0},     {SpanKind::kDecode, at(65), at(70), 0},
      {SpanKind::kBlocked, at(90), at(100), 0}, {SpanKind::kStep, at(0), at(100), 7}};
  RecordedRun run = {.ranks = {spans, spans}};
  run.plans = {
      {.step = 7, .change = "w none -> bf16", .why = "faster", .predicted_ms = 3, .measured_ms = 4},
      {.step = 999, .change = "after what was recorded"}};
  return run;
}

struct Drawn {
  int rank, row;
  std::string name;
  double us, duration_us;
  bool operator==(const Drawn&) const = default;
};

std::vector<Drawn> SpansOf(const Json& trace, int rank) {
  std::vector<Drawn> spans;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != rank) continue;
    spans.push_back({event["pid"], event["tid"], event["name"], event["ts"], event["dur"]});
  }
  return spans;
}

TEST(ChromeTrace, DrawsEveryRankFromTheOutsideIn) {
  const Json trace = Json::parse(ChromeTrace(SampleRun()));
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<Drawn> expected = {
        {rank, 0, "step 7", 0, 100}, {rank, 0, "compute", 0, 40},  {rank, 1, "encode", 30, 5},
        {rank, 2, "wire", 35, 35},   {rank, 0, "blocked", 40, 20}, {rank, 0, "compute", 60, 30},
        {rank, 1, "decode", 65, 5},  {rank, 0, "blocked", 90, 10}};
    EXPECT_EQ(SpansOf(trace, rank), expected);
  }
}

TEST(ChromeTrace, NamesRanksAndRows) {
  const Json trace = Json::parse(ChromeTrace(SampleRun()));
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["pid"] == 1) names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rank 1", "training", "codec", "wire"}));
}

TEST(ChromeTrace, NamesWhatIsNotDrawn) {
  RecordedRun run = SampleRun();
  run.left_out = {0, 5};
  const std::string trace = ChromeTrace(run);
  EXPECT_NE(trace.find("\"rank 0\""), std::string::npos) << trace;
  EXPECT_NE(trace.find("\"rank 1, 5 spans at the end left out\""), std::string::npos) << trace;
}

TEST(ChromeTrace, MarksPlansWhereTheirStepEnds) {
  const Json trace = Json::parse(ChromeTrace(SampleRun()));
  std::vector<Json> marks;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "i") marks.push_back(event);
  }
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0]["name"], "plan: w none -> bf16");
  EXPECT_EQ(marks[0]["ts"], 100);
  EXPECT_EQ(marks[0]["args"]["why"], "faster");
  EXPECT_EQ(marks[0]["args"]["measured_ms"], 4);
  EXPECT_TRUE(marks[0]["args"]["error"].is_null());
}

TEST(ChromeTrace, OfNothingIsEmpty) {
  EXPECT_TRUE(Json::parse(ChromeTrace({}))["traceEvents"].empty());
}

}  // namespace
}  // namespace gradwire
