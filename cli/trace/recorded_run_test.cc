#include "cli/trace/recorded_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace gradwire {
namespace {

constexpr char kRun[] =
    R"({"ranks": 1, "timeline": "run.json.timeline", "results": [{"plan_changes": [)"
    R"({"step": 3, "change": "a", "why": "b", "predicted_ms": 1.5, "was_ms": 2, )"
    R"("measured_ms": 1.75, "error": null}]}]})";

// The status of reading such files.
StatusOr<RecordedRun> ReadFiles(const std::string& run, const std::string& spans) {
  const std::string path = testing::TempDir() + "/run.json";
  std::ofstream(path) << run;
  std::ofstream(path + ".timeline.0") << spans;
  return ReadRecordedRun(path);
}

// A rank's file FILE.RANK with one span.
void WriteStep(const std::string& path, const TimelineOwner& owner) {
  Timeline timeline;
  timeline.Add({.kind = SpanKind::kStep, .begin_ns = 0, .end_ns = 9, .number = 5});
  const Status written = timeline.WriteTo(fmt::format("{}.{}", path, owner.rank), owner);
  ASSERT_TRUE(written.ok()) << written.ToString();
}

TEST(ReadRecordedRun, ReadsWhatATimelineWrites) {
  Timeline timeline;
  timeline.Add({.kind = SpanKind::kWire, .begin_ns = 1, .end_ns = 2});
  timeline.Add({.kind = SpanKind::kStep, .begin_ns = 0, .end_ns = 9, .number = 5});
  ASSERT_TRUE(timeline.WriteTo(testing::TempDir() + "/run.json.timeline.0", {}).ok());
  const std::string path = testing::TempDir() + "/run.json";
  std::ofstream(path) << kRun;
  const StatusOr<RecordedRun> run = ReadRecordedRun(path);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  ASSERT_EQ(run->ranks.size(), 1u);
  ASSERT_EQ(run->ranks[0].size(), 2u);
  EXPECT_EQ(run->ranks[0][1].kind, SpanKind::kStep);
  EXPECT_EQ(run->ranks[0][1].end_ns, 9);
  EXPECT_EQ(run->ranks[0][1].number, 5u);
  ASSERT_EQ(run->plans.size(), 1u);
  EXPECT_EQ(run->plans[0].predicted_ms, 1.5);
  EXPECT_EQ(run->plans[0].measured_ms, 1.75);
  EXPECT_EQ(run->plans[0].error, std::nullopt);
  EXPECT_EQ(run->plans[0].bound, std::nullopt) << "not there";
}

TEST(ReadRecordedRun, SaysWhatIsWrong) {
  EXPECT_EQ(ReadRecordedRun("/nowhere/at/all").status().code(), gwInvalidArgument);
  EXPECT_EQ(ReadFiles("nonsense", "").status().code(), gwInvalidArgument);
  EXPECT_EQ(ReadFiles("[]", "").status().code(), gwInvalidArgument);
  EXPECT_THAT(ReadFiles(R"({"ranks": 1, "results": []})", "").status().detail().hint,
              testing::HasSubstr("gradwire train --timeline --json FILE"));
  EXPECT_EQ(ReadFiles(R"({"ranks": 2, "timeline": "run.json.timeline", "results": []})",
                      R"({"job": "7", "rank": 0, "ranks": 2})")
                .status()
                .code(),
            gwInvalidArgument);
}

TEST(ReadRecordedRun, ReadsTheTimelinesOfAnyProgram) {
  const std::string path = testing::TempDir() + "/any";
  for (const TimelineOwner& owner : {TimelineOwner{7, 0, 2}, {7, 1, 2}, {6, 2, 3}})
    WriteStep(path, owner);
  const StatusOr<RecordedRun> run = ReadRecordedRun(path);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  ASSERT_EQ(run->ranks.size(), 2u) << "the third is an earlier job's";
  EXPECT_EQ(run->ranks[1].at(0).number, 5u);
  EXPECT_TRUE(run->plans.empty());
  EXPECT_THAT(run->files, testing::ElementsAre(path + ".0", path + ".1"));
  // One rank's file is not the run.
  EXPECT_THAT(ReadRecordedRun(path + ".0").status().detail().hint,
              testing::HasSubstr("without the rank"));
}

TEST(ReadRecordedRun, JobsAreNotMixed) {
  const std::string path = testing::TempDir() + "/mixed";
  WriteStep(path, {7, 0, 2});
  for (const TimelineOwner& other : {TimelineOwner{6, 1, 2}, {7, 0, 2}, {7, 1, 3}}) {
    ASSERT_TRUE(Timeline().WriteTo(path + ".1", other).ok());
    const Status status = ReadRecordedRun(path).status();
    EXPECT_EQ(status.code(), gwInvalidArgument);
    EXPECT_THAT(status.ToString(), testing::HasSubstr("mixed.1' is rank"));
  }
  ASSERT_TRUE(std::filesystem::remove(path + ".1"));
  EXPECT_THAT(ReadRecordedRun(path).status().ToString(), testing::HasSubstr("cannot read"))
      << "a rank is missing";
}

TEST(ReadRecordedRun, KnowsWhatATimelineHadNoRoomFor) {
  const std::string owner = R"({"job": "7", "rank": 0, "ranks": 1})", end = R"({"left_out": 3})",
                    span = R"({"span": "wire", "begin_ns": 1, "end_ns": 2, "number": 0})";
  const StatusOr<RecordedRun> cut = ReadFiles(kRun, owner + "\n" + span + "\n" + end + "\n");
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(cut->ranks[0].size(), 1u);
  EXPECT_THAT(cut->left_out, testing::ElementsAre(3));
  EXPECT_THAT(ReadFiles(kRun, owner + "\n" + end + "\n" + span).status().ToString(),
              testing::HasSubstr("line 3: it stands behind the end"));
}

TEST(ReadRecordedRun, NamesTheLine) {
  const std::string good = R"({"job": "7", "rank": 0, "ranks": 1})";
  for (const std::string bad : {R"({"span": "wave", "begin_ns": 1, "end_ns": 2, "number": 0})",
                                R"({"span": "wire", "begin_ns": 3, "end_ns": 2, "number": 0})",
                                R"({"span": "wire", "begin_ns": 1)"}) {
    const Status status = ReadFiles(kRun, good + "\n" + bad + "\n").status();
    EXPECT_EQ(status.code(), gwInvalidArgument);
    EXPECT_NE(status.ToString().find("line 2"), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace gradwire
