// Ranks that are killed, stopped or aborted at random moments: nobody hangs, and every survivor is
// told who it was.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/hash.h"
#include "tests/fault/fault_trial.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"
#include "transports/ucx/ucx_folder.h"

namespace gradwire {
namespace {

// Sanitized, what a death leaves to clean up counts and not how many moments are hit.
constexpr int Trials(int sanitized, int plain) { return kSanitized ? sanitized : plain; }

// Kills that each test makes sure of. While they leave, victims may be faster: those do not count.
constexpr int kAtFailpoints = 28;
constexpr int kWhileStarting = Trials(3, 12), kInCollectives = Trials(6, 40);
constexpr int kInSteps = Trials(6, 33);
static_assert(kSanitized || kAtFailpoints + kWhileStarting + kInCollectives + kInSteps >= 100);

// UCX puts its segments where only this test's do, so that what is left can be told.
class FaultTrials : public testing::Test {
 protected:
  FaultTrials() {
    char name[] = "/dev/shm/gradwire_fault_XXXXXX";
    if (mkdtemp(name) != nullptr) shared_ = name;
    setenv("UCX_POSIX_DIR", name, 1);
  }
  ~FaultTrials() override { std::filesystem::remove_all(shared_); }

  void ExpectTold(Fault fault, Phase phase, int trials) {
    SCOPED_TRACE(TestSeedText());
    int64_t worst_error_ns = 0, worst_return_ns = 0;
    int told = 0, killed = 0;
    for (int i = 0; i < trials; ++i) {
      const uint64_t seed =
          Hasher().Add(TestSeed()).Add(phase).Add(fault).Add(static_cast<uint64_t>(i)).digest();
      const FaultTrial trial = RandomTrial(seed, fault, phase);
      const TrialResult result = RunTrial(trial);
      EXPECT_TRUE(result.complaint.empty()) << trial.Describe() << ": " << result.complaint;
      ASSERT_FALSE(result.hung);
      told += result.told;
      killed += result.killed ? 1 : 0;
      worst_error_ns = std::max(worst_error_ns, result.worst_error_ns);
      worst_return_ns = std::max(worst_return_ns, result.worst_return_ns);
      // What the last to end leaves while it makes files is for whoever started them to remove.
      if (phase == Phase::kInit) RemoveDeadUcxFolders();
      EXPECT_EQ(FilesLeft(), 0) << trial.Describe() << " in " << shared_;
    }
    std::printf("%d x %s in %s: %d survivors told, worst after %.1f ms; worst return %.0f ms\n",
                trials, Name(fault), Name(phase), told, static_cast<double>(worst_error_ns) / 1e6,
                static_cast<double>(worst_return_ns) / 1e6);
    if (phase != Phase::kFinalize) {
      EXPECT_GT(told, 0);
      // Who is stopped is killed in the end.
      EXPECT_EQ(killed, fault == Fault::kAbort ? 0 : trials);
    }
  }

  int64_t FilesLeft() const {
    return std::distance(std::filesystem::directory_iterator(shared_),
                         std::filesystem::directory_iterator());
  }

  std::string shared_;
};

// Each place of base/failpoint.h, each rank that comes by it.
TEST_F(FaultTrials, KilledAtFailpoints) {
  int killed = 0;
  for (const FaultTrial& trial : FailpointTrials()) {
    const TrialResult result = RunTrial(trial);
    EXPECT_TRUE(result.complaint.empty()) << trial.Describe() << ": " << result.complaint;
    ASSERT_FALSE(result.hung);
    killed += result.killed ? 1 : 0;
    std::printf("%s: %d told, the last after %.0f ms\n", trial.Describe().c_str(), result.told,
                static_cast<double>(result.worst_error_ns) / 1e6);
  }
  EXPECT_EQ(killed, kAtFailpoints);
  // No failpoint lies where UCX makes its files.
  EXPECT_EQ(FilesLeft(), 0) << "in " << shared_;
}

TEST_F(FaultTrials, KilledWhileStarting) { ExpectTold(Fault::kKill, Phase::kInit, kWhileStarting); }
TEST_F(FaultTrials, KilledInCollectives) {
  ExpectTold(Fault::kKill, Phase::kCollectives, kInCollectives);
}
TEST_F(FaultTrials, KilledInSteps) { ExpectTold(Fault::kKill, Phase::kSteps, kInSteps); }
TEST_F(FaultTrials, KilledWhileLeaving) {
  ExpectTold(Fault::kKill, Phase::kFinalize, Trials(3, 15));
}
// Joined or not: whoever waits is told by init_timeout_ms at the latest.
TEST_F(FaultTrials, StoppedWhileStarting) { ExpectTold(Fault::kStop, Phase::kInit, Trials(1, 3)); }
TEST_F(FaultTrials, StoppedInCollectives) {
  ExpectTold(Fault::kStop, Phase::kCollectives, Trials(1, 3));
}
TEST_F(FaultTrials, StoppedInSteps) { ExpectTold(Fault::kStop, Phase::kSteps, Trials(1, 3)); }
TEST_F(FaultTrials, AbortedInCollectives) {
  ExpectTold(Fault::kAbort, Phase::kCollectives, Trials(3, 10));
}
TEST_F(FaultTrials, AbortedInSteps) { ExpectTold(Fault::kAbort, Phase::kSteps, Trials(3, 10)); }
TEST_F(FaultTrials, AbortedWhileLeaving) {
  ExpectTold(Fault::kAbort, Phase::kFinalize, Trials(2, 5));
}

}  // namespace
}  // namespace gradwire
