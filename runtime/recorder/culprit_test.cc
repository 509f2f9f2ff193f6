// Real ranks in real processes, one of which does wrong; the files that they leave must name it.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/unique_fd.h"
#include "gradwire/gradwire.h"
#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/recorder_log.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kSteps = 5;
constexpr uint32_t kOpsPerStep = 3;
constexpr int64_t kElems = 3000;

enum class Fault { kNone, kKilled, kStopped, kLeaves, kHangs, kOtherCount, kFewer, kOtherTable };

struct Trial {
  Fault fault = Fault::kNone;
  int world_size = 3;
  int victim = 0;
  uint64_t step = 0;  // where it does wrong
  uint32_t op = 0;
  std::string dir;
};

std::string SettingsOf(const Trial& trial) {
  std::string settings = "abort_timeout_ms=500; recorder_dir=" + trial.dir;
  if (trial.fault == Fault::kStopped) settings += "; heartbeat_ms=200; heartbeat_timeout_ms=4000";
  if (trial.fault == Fault::kHangs) settings += "; op_timeout_ms=3000";
  return settings;
}

// One rank's life. Every call that fails ends it, as a program that gives up would.
class RankProgram {
 public:
  RankProgram(const Trial& trial, int rank, gwUniqueId id) : trial_(trial), rank_(rank), id_(id) {}

  void Run() {
    const std::string settings = SettingsOf(trial_);
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = settings.c_str();
    if (gwCommInitRankConfig(&comm_, trial_.world_size, id_, rank_, &config) != gwSuccess) return;
    bool going = Register();
    for (uint64_t step = 0; going && step < kSteps; ++step) going = Step(step);
    gwCommDestroy(comm_);
  }

 private:
  bool Register() {
    for (uint32_t op = 0; op < kOpsPerStep; ++op) {
      gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
      config.spec = op == 0 ? "none" : "qsgd(bits=4)";
      const std::string name = "w" + std::to_string(op);
      const gwResult_t result =
          gwTensorRegister(comm_, name.c_str(), &kElems, 1, gwFloat32, &config, &tensors_[op]);
      if (result != gwSuccess) return false;
    }
    if (trial_.fault != Fault::kOtherTable || rank_ != trial_.victim) return true;
    gwTensor_t extra = nullptr;
    return gwTensorRegister(comm_, "extra", &kElems, 1, gwFloat32, nullptr, &extra) == gwSuccess;
  }

  bool Step(uint64_t step) {
    if (gwStepBegin(comm_, step) != gwSuccess) return false;
    for (uint32_t op = 0; op < kOpsPerStep; ++op) {
      size_t count = kElems;
      if (rank_ == trial_.victim && step == trial_.step && op == trial_.op) {
        switch (trial_.fault) {
          case Fault::kNone:
          case Fault::kOtherTable: break;
          case Fault::kKilled: raise(SIGKILL); break;
          case Fault::kStopped: raise(SIGSTOP); break;
          case Fault::kLeaves: return false;
          case Fault::kHangs: pause(); break;
          case Fault::kOtherCount: count += 1; break;
          case Fault::kFewer: return End();
        }
      }
      if (!Exact(count) || !Compressed(op)) return false;
    }
    return End();
  }

  bool Exact(size_t count) {
    return gwAllReduce(data_.data(), data_.data(), count, gwFloat32, gwMax, comm_, nullptr) ==
           gwSuccess;
  }
  bool Compressed(uint32_t op) {
    gwRequest_t request = nullptr;
    if (gwAllReduceTensor(tensors_[op], data_.data(), out_.data(), gwAvg, nullptr, &request) !=
        gwSuccess) {
      return false;
    }
    const gwResult_t result = gwRequestWait(request, -1);
    gwRequestFree(request);
    return result == gwSuccess;
  }
  bool End() {
    gwStepOutcome_t outcome = gwStepAborted;
    return gwStepEnd(comm_, &outcome) == gwSuccess && outcome == gwStepCommitted;
  }

  const Trial& trial_;
  const int rank_;
  const gwUniqueId id_;
  gwComm_t comm_ = nullptr;
  std::array<gwTensor_t, kOpsPerStep> tensors_ = {};
  std::vector<float> data_ = std::vector<float>(kElems + 1, 1.5f), out_ = data_;
};

// Rank 0 makes the job's id and hands it to the others through their pipes.
[[noreturn]] void RankMain(const Trial& trial, int rank, const std::vector<Pipe>& pipes) {
  gwUniqueId id;
  bool ok = true;
  if (rank == 0) {
    ok = gwGetUniqueId(&id) == gwSuccess;
    for (int r = 1; ok && r < trial.world_size; ++r)
      ok = write(pipes[r].write_end.get(), &id, sizeof id) > 0;
  } else {
    ok = read(pipes[rank].read_end.get(), &id, sizeof id) == sizeof id;
  }
  if (ok) RankProgram(trial, rank, id).Run();
  _exit(ok ? 0 : 1);
}

void RunTrial(const Trial& trial) {
  std::vector<Pipe> pipes(trial.world_size);
  for (Pipe& pipe : pipes) ASSERT_TRUE(pipe.Open().ok());
  std::vector<pid_t> children;
  for (int rank = 0; rank < trial.world_size; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) RankMain(trial, rank, pipes);
    children.push_back(child);
  }
  for (int rank = 0; rank < trial.world_size; ++rank) {
    if (rank == trial.victim) continue;
    int status = 0;
    ASSERT_EQ(waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": " << status;
  }
  if (trial.fault == Fault::kStopped || trial.fault == Fault::kHangs) {
    EXPECT_EQ(kill(children[trial.victim], SIGKILL), 0);
  }
  EXPECT_EQ(waitpid(children[trial.victim], nullptr, 0), children[trial.victim]);
}

JobRecord ReadJob(const std::string& dir) {
  std::vector<RecorderLog> logs;
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    auto log = ReadRecorder(file.path().string());
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    if (log.ok()) logs.push_back(std::move(*log));
  }
  return MergeLogs(std::move(logs));
}

bool HasEntry(const std::string& dir, RecordKind kind, int peer) {
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    const auto log = ReadRecorder(file.path().string());
    if (!log.ok()) continue;
    for (const RecorderEntry& e : log->entries) {
      if (e.kind == kind && e.peer == peer) return true;
    }
  }
  return false;
}

void ExpectNamed(const Trial& trial, const Diagnosis& diagnosis) {
  SCOPED_TRACE(diagnosis.verdict);
  if (trial.fault == Fault::kNone) {
    EXPECT_TRUE(diagnosis.culprits.empty());
    return;
  }
  if (trial.fault == Fault::kOtherCount) {
    EXPECT_NE(diagnosis.verdict.find("bytes of float"), std::string::npos);
  }
  if (trial.fault == Fault::kOtherTable) {
    EXPECT_NE(diagnosis.verdict.find("tensor table: "), std::string::npos);
  }
  const std::vector<int>& culprits = diagnosis.culprits;
  EXPECT_EQ(std::count(culprits.begin(), culprits.end(), trial.victim), 1);
  // Two ranks that disagree in the first step, before the others have spoken: either may be right.
  const bool open = trial.step == 0 && !diagnosis.findings.empty() &&
                    diagnosis.findings[0].kind == FindingKind::kDisagree;
  if (!open) {
    EXPECT_EQ(culprits.size(), 1u);
  }
}

struct Case {
  const char* name;
  Fault fault;
  int trials;
};

class Culprit : public testing::TestWithParam<Case> {};

TEST_P(Culprit, IsNamedByTheFiles) {
  for (int i = 0; i < GetParam().trials; ++i) {
    RandomStream random(TestSeed(), static_cast<uint64_t>(i));
    Trial trial = {.fault = GetParam().fault, .world_size = 3 + i % 2};
    trial.victim = static_cast<int>(random.Below(trial.world_size));
    trial.step = random.Below(kSteps);
    trial.op = static_cast<uint32_t>(random.Below(kOpsPerStep));
    trial.dir = testing::TempDir() + "/culprit_" + GetParam().name + std::to_string(i);
    std::filesystem::remove_all(trial.dir);
    SCOPED_TRACE(TestSeedText());
    SCOPED_TRACE("trial " + std::to_string(i) + " of " + std::to_string(trial.world_size) +
                 " ranks, victim " + std::to_string(trial.victim) + " step " +
                 std::to_string(trial.step) + " op " + std::to_string(trial.op));
    ASSERT_NO_FATAL_FAILURE(RunTrial(trial));
    const JobRecord job = ReadJob(trial.dir);
    ASSERT_EQ(job.world_size, trial.world_size);
    ExpectNamed(trial, Diagnose(job));
    if (trial.fault == Fault::kHangs) {
      EXPECT_TRUE(HasEntry(trial.dir, RecordKind::kWaiting, trial.victim));
    }
    if (trial.fault == Fault::kNone) {
      EXPECT_TRUE(HasEntry(trial.dir, RecordKind::kVoteHeard, trial.world_size - 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Culprit,
    testing::Values(Case{"none", Fault::kNone, 1}, Case{"killed", Fault::kKilled, 8},
                    Case{"stopped", Fault::kStopped, 2}, Case{"leaves", Fault::kLeaves, 2},
                    Case{"hangs", Fault::kHangs, 2}, Case{"other_count", Fault::kOtherCount, 6},
                    Case{"fewer", Fault::kFewer, 6}, Case{"other_table", Fault::kOtherTable, 4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradwire
