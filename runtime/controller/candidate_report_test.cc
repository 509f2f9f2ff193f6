#include "runtime/controller/candidate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint8_t kBf16 = 1;    // a rung
constexpr double kLost = 1e-4;  // its root is what one rank's codec is off by

// Two tensors, of which the second takes bf16 only.
class CandidateReportTest : public testing::Test {
 protected:
  CandidateReportTest() {
    job_.candidates = {{.spec = "none", .bound = 0.05},
                       {.spec = "bf16(feedback=off)", .bound = 0.05},
                       {.spec = "topk(density=0.01)", .feedback = true, .bound = 1}};
    job_.tensors = {{.name = "w", .ladder = {{0}, {1}, {2}}},
                    {.name = "v", .ladder = {{0}, {1}, {}}}};
    memory_.candidates.resize(3);
    memory_.alike = {1, 1};
    memory_.model.codec_us_per_elem = {-1, -1, -1};
  }

  JobFacts job_;
  Memory memory_;
};

TEST_F(CandidateReportTest, TellsNothingOfWhatWasNotTried) {
  const std::vector<CandidateReport> reports = ReportCandidates(job_, memory_);
  ASSERT_THAT(reports, SizeIs(2)) << "none loses nothing";
  EXPECT_EQ(reports[0].spec, "bf16");
  EXPECT_EQ(reports[0].tensors, 2);
  EXPECT_EQ(reports[1].tensors, 1);
  EXPECT_EQ(reports[1].error, std::nullopt);
  EXPECT_THAT(NoteOf(reports, memory_), IsEmpty());
  EXPECT_EQ(Json(reports),
            R"json([{"spec": "bf16", "tensors": 2, "error": null, "limit": "error", )json"
            R"json("bound": 0.05, "codec_us_per_mib": null}, {"spec": "topk(density=0.01)", )json"
            R"json("tensors": 1, "error": null, "limit": "lag", "bound": 1, )json"
            R"json("codec_us_per_mib": null}])json");
}

TEST_F(CandidateReportTest, TellsTheErrorWhereItIsLeast) {
  memory_.candidates[1].relative_error = kLost;
  memory_.model.codec_us_per_elem[1] = 0.001;
  memory_.alike = {1, 2};
  const CandidateReport bf16 = ReportCandidates(job_, memory_)[0];
  ASSERT_TRUE(bf16.error);
  EXPECT_NEAR(*bf16.error, 0.01, 1e-9);
  EXPECT_FALSE(bf16.is_over_bound());
  EXPECT_NEAR(bf16.codec_us_per_mib.value(), 262.144, 1e-9);
}

TEST_F(CandidateReportTest, SaysWhereNothingIsLeft) {
  job_.candidates[1].bound = 1e-6;
  memory_.candidates[1].relative_error = kLost;
  EXPECT_THAT(NoteOf(ReportCandidates(job_, memory_), memory_), IsEmpty()) << "topk may do yet";
  memory_.candidates[2].relative_error = 0.999;
  EXPECT_EQ(NoteOf(ReportCandidates(job_, memory_), memory_),
            "every codec loses more than error= and lag= allow: tensors travel as none");
  memory_.running = {kBf16, kBf16};
  EXPECT_THAT(NoteOf(ReportCandidates(job_, memory_), memory_), IsEmpty()) << "it runs";
  memory_.running = {0, 0};
  job_.candidates[1].bound = 0.05;
  EXPECT_THAT(NoteOf(ReportCandidates(job_, memory_), memory_), IsEmpty());
}

TEST_F(CandidateReportTest, KnowsNoneUnderEveryBound) {
  job_.candidates.push_back({.spec = "none", .bound = 0.02});
  job_.tensors[1].ladder[0] = {3};
  EXPECT_THAT(ReportCandidates(job_, memory_), SizeIs(2));
}

// Nothing was decided yet.
TEST_F(CandidateReportTest, KnowsAJobThatHasNotBegun) {
  EXPECT_THAT(ReportCandidates(job_, Memory()), SizeIs(2));
  EXPECT_THAT(ReportCandidates(JobFacts(), Memory()), IsEmpty());
  EXPECT_THAT(NoteOf({}, memory_), IsEmpty());
}

}  // namespace
}  // namespace gradwire
