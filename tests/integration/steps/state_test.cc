// gwStateSave and gwStateLoad: a run that is resumed goes on with the bits of the run that was
// saved; bytes that are not whole are refused without effect.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kSavedAt = 4, kSteps = 8;

struct Saved {
  std::vector<std::string> at_save = std::vector<std::string>(kRanks);
  std::vector<std::string> at_end = std::vector<std::string>(kRanks);
  std::vector<std::vector<StepResult>> later = std::vector<std::vector<StepResult>>(kRanks);
};

void RunSteps(Trainer* trainer, uint64_t begin, uint64_t end, std::vector<StepResult>* results) {
  for (uint64_t step = begin; step < end; ++step) {
    results->push_back(trainer->Step(step));
    ASSERT_EQ(results->back().outcome, gwStepCommitted) << results->back().text;
    // Outside of steps the counters of the tensors are what counts.
    results->push_back(trainer->OutsideSteps(100 + step));
    ASSERT_EQ(results->back().code, gwSuccess) << results->back().text;
  }
}

Saved TrainAndSave(const std::string& settings) {
  Saved saved;
  RunRanks(kRanks, settings, [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    std::vector<StepResult> before;
    ASSERT_NO_FATAL_FAILURE(RunSteps(&trainer, 0, kSavedAt, &before));
    saved.at_save[rank] = SavedState(comm);
    ASSERT_NO_FATAL_FAILURE(RunSteps(&trainer, kSavedAt, kSteps, &saved.later[rank]));
    saved.at_end[rank] = SavedState(comm);
  });
  return saved;
}

gwResult_t Load(gwComm_t comm, const std::string& state) {
  return gwStateLoad(comm, state.data(), state.size());
}

void CheckResume(const std::string& settings, uint64_t other_steps) {
  const Saved saved = TrainAndSave(settings);
  RunRanks(kRanks, settings, [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    std::vector<StepResult> others, later;
    ASSERT_NO_FATAL_FAILURE(RunSteps(&trainer, 50, 50 + other_steps, &others));
    ASSERT_EQ(Load(comm, saved.at_save[rank]), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(SavedState(comm), saved.at_save[rank]);
    ASSERT_NO_FATAL_FAILURE(RunSteps(&trainer, kSavedAt, kSteps, &later));
    ASSERT_EQ(later.size(), saved.later[rank].size());
    for (size_t i = 0; i < later.size(); ++i) {
      EXPECT_TRUE(SameBits(later[i].out, saved.later[rank][i].out)) << i;
    }
    EXPECT_EQ(SavedState(comm), saved.at_end[rank]);
  });
}

TEST(State, ResumesInANewCommunicator) { CheckResume("slice_elems=256", 0); }
TEST(State, ResumesInOneThatHasTrained) { CheckResume("slice_elems=256", 3); }
TEST(State, ResumesWithoutTransactions) { CheckResume("slice_elems=256; transaction=off", 2); }

TEST(State, DamagedBytesAreRefusedWithoutEffect) {
  SCOPED_TRACE(TestSeedText());
  const Saved saved = TrainAndSave("");
  RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    std::vector<StepResult> results;
    ASSERT_NO_FATAL_FAILURE(RunSteps(&trainer, 20, 22, &results));
    const std::string before = SavedState(comm);
    const std::string& good = saved.at_save[rank];
    RandomStream random(TestSeed(), static_cast<uint64_t>(rank));
    for (int i = 0; i < 300; ++i) {
      std::string bad = good;
      const auto at = static_cast<size_t>(random.Below(bad.size()));
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.Below(8)));
      ASSERT_EQ(Load(comm, bad), gwDataCorrupt) << "byte " << at;
    }
    for (size_t bytes = 0; bytes < good.size(); bytes += 1 + bytes / 3) {
      ASSERT_EQ(Load(comm, good.substr(0, bytes)), gwDataCorrupt) << bytes << " bytes";
    }
    ASSERT_EQ(Load(comm, good + '\0'), gwDataCorrupt);
    EXPECT_EQ(SavedState(comm), before);
    EXPECT_TRUE(AllReduceWorks(rank, kRanks, comm));
  });
}

TEST(State, OfOtherTensorsOrRanksIsRefusedWithoutEffect) {
  const Saved saved = TrainAndSave("");
  RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
    std::vector<TrainedTensor> tensors = SomeTensors();
    Trainer trainer(comm, rank, tensors);
    const std::string before = SavedState(comm);
    EXPECT_EQ(Load(comm, saved.at_save[(rank + 1) % kRanks]), gwMismatch);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("another rank"), std::string::npos) << text;
    const int64_t shape[] = {4};
    gwTensor_t more = nullptr;
    ASSERT_EQ(gwTensorRegister(comm, "more", shape, 1, gwFloat32, nullptr, &more), gwSuccess);
    EXPECT_EQ(Load(comm, saved.at_save[rank]), gwMismatch);
    ASSERT_EQ(gwTensorDeregister(trainer.handles()[0]), gwSuccess);
    EXPECT_EQ(Load(comm, saved.at_save[rank]), gwMismatch);
    const std::string which = gwGetLastError(comm);
    EXPECT_NE(which.find("'exact'"), std::string::npos) << which;
    EXPECT_NE(SavedState(comm), before);
    ASSERT_EQ(gwTensorDeregister(more), gwSuccess);
    Trainer again(comm, rank, {tensors[0]});
    EXPECT_EQ(SavedState(comm), before);
    EXPECT_EQ(Load(comm, saved.at_save[rank]), gwSuccess) << gwGetLastError(comm);
  });
}

}  // namespace
}  // namespace gradwire
