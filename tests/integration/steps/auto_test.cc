// Tensors of the spec `auto`: whatever their controller decides, all ranks follow it together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
// Enough for the warm-up and a few decisions.
constexpr uint64_t kSteps = 60;

std::vector<TrainedTensor> AutoTensors() {
  return {{"first", "auto", 20000},
          {"fixed", "qsgd(bits=4)", 5000},
          {"small", "auto", 10},
          {"second", "auto(allow=\"topk(0.1),powersgd(rank=2)\")", 8192},
          {"last", "auto(error=0.01)", 30000}};
}

struct AutoJob {
  std::vector<std::vector<StepResult>> steps = std::vector<std::vector<StepResult>>(kRanks);
  std::vector<std::string> ledgers = std::vector<std::string>(kRanks);
};

AutoJob Train(const std::string& settings, bool wait_for_outcome = true) {
  AutoJob job;
  RunRanks(kRanks, settings, [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, AutoTensors());
    trainer.wait_for_outcome = wait_for_outcome;
    std::vector<std::string> aborts;
    for (uint64_t step = 0; step < kSteps; ++step) {
      job.steps[rank].push_back(trainer.StepUntilCommitted(step, &aborts));
      ASSERT_EQ(job.steps[rank].back().outcome, gwStepCommitted) << "step " << step;
    }
    job.ledgers[rank] = LedgerText(comm);
  });
  return job;
}

void ExpectReplicasAlike(const AutoJob& job) {
  for (int rank = 1; rank < kRanks; ++rank) {
    ASSERT_EQ(job.steps[rank].size(), job.steps[0].size());
    for (size_t step = 0; step < job.steps[0].size(); ++step)
      EXPECT_TRUE(SameBits(job.steps[0][step].out, job.steps[rank][step].out)) << "step " << step;
  }
}

TEST(Auto, AllRanksFollowOnePlan) {
  const AutoJob job = Train("");
  ExpectReplicasAlike(job);
  EXPECT_THAT(job.ledgers[0], HasSubstr("warm-up: bf16 is measured"));
  EXPECT_THAT(job.ledgers[1], HasSubstr("\"auto\": \"auto(error=0.01,"));
}

// No tensor names a spec.
TEST(Auto, IsWhatTheSettingSays) {
  RunRanks(2, "compress=auto(error=0.05)", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "", 10000}, {"v", "", 5000}});
    std::vector<std::string> aborts;
    for (uint64_t step = 0; step < 20; ++step)
      ASSERT_EQ(trainer.StepUntilCommitted(step, &aborts).outcome, gwStepCommitted) << step;
    EXPECT_THAT(LedgerText(comm), HasSubstr("\"auto\": \"auto(error=0.05,"));
    if (rank != 0) return;
    EXPECT_THAT(LedgerText(comm), HasSubstr("warm-up: bf16 is measured"));
  });
}

TEST(Auto, AlsoWhereStepsEndWithoutWaiting) { ExpectReplicasAlike(Train("", false)); }

TEST(Auto, AlsoWhereStepsAreAborted) {
  SCOPED_TRACE(TestSeedText());
  ExpectReplicasAlike(Train("transport=faulty(loopback,seed=" + std::to_string(TestSeed()) +
                            ",corrupt=0.0005,delay=0.1)"));
}

TEST(Auto, OutsideStepsItIsBf16) {
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "auto", 10000}, {"v", "auto", 5000}});
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(trainer.OutsideSteps(i).code, gwSuccess);
    EXPECT_THAT(LedgerText(comm), HasSubstr("\"spec\": \"bf16(feedback=off)\""));
    EXPECT_THAT(LedgerText(comm), HasSubstr("compute cannot be measured"));
  });
}

TEST(Auto, TensorsMayComeGoAndChange) {
  RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, AutoTensors());
    std::vector<std::string> aborts;
    const auto steps = [&](uint64_t first, uint64_t end) {
      for (uint64_t step = first; step < end; ++step)
        ASSERT_EQ(trainer.StepUntilCommitted(step, &aborts).outcome, gwStepCommitted) << step;
    };
    steps(0, 25);
    const int64_t shape[] = {50000};
    gwTensor_t more = nullptr;
    ASSERT_EQ(gwTensorRegister(comm, "more", shape, 1, gwFloat32, nullptr, &more), gwSuccess);
    ASSERT_EQ(gwTensorSetSpec(more, "auto"), gwSuccess);
    steps(25, 40);
    ASSERT_EQ(gwTensorSetSpec(trainer.handles()[0], "bf16"), gwSuccess);
    steps(40, 50);
    ASSERT_EQ(gwTensorSetSpec(trainer.handles()[0], "auto"), gwSuccess);
    ASSERT_EQ(gwTensorDeregister(more), gwSuccess);
    steps(50, 70);
    EXPECT_TRUE(aborts.empty());
  });
}

// As models of one program are: the log of the first must not be written over, and one that decides
// nothing takes no file.
TEST(Auto, CommunicatorsOfAProcessHaveLogsOfTheirOwn) {
  const std::filesystem::path folder = testing::TempDir() + "/plan_logs";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::string settings = "plan_log=" + (folder / "log").string();
  for (const char* spec : {"auto", "none", "auto"}) {
    RunRanks(2, settings, [&](int rank, gwComm_t comm) {
      Trainer trainer(comm, rank, {{"w", spec, 50000}});
      std::vector<std::string> aborts;
      for (uint64_t step = 0; step < 15; ++step)
        ASSERT_EQ(trainer.StepUntilCommitted(step, &aborts).outcome, gwStepCommitted) << step;
    });
  }
  int logs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_TRUE(text.starts_with("{\"job\"")) << entry.path();
    EXPECT_NE(text.find("\"end\""), text.npos) << entry.path() << " is cut off";
    ++logs;
  }
  EXPECT_EQ(logs, 2);
}

// Steps of which rank 0's controller hears, where a gradient of rank 1 has `value` in each.
int64_t StepsHeardOf(float value) {
  const std::filesystem::path folder = testing::TempDir() + "/heard";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  RunRanks(2, "plan_log=" + (folder / "log").string(), [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "auto", 50000}});
    trainer.change = [&](uint64_t, std::vector<std::vector<float>>* grads) {
      if (rank == 1) (*grads)[0][7] = value;
    };
    for (uint64_t step = 0; step < 15; ++step)
      ASSERT_EQ(trainer.Step(step).outcome, gwStepCommitted) << gwGetLastError(comm);
  });
  int64_t inputs = 0;
  for (const auto& log : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(log.path());
    for (std::string line; std::getline(file, line);)
      inputs += line.starts_with("{\"input\"") ? 1 : 0;
  }
  return inputs;
}

TEST(Auto, HearsOfStepsThatPassOnWhatIsNotFinite) {
  const int64_t finite = StepsHeardOf(1.0f);
  EXPECT_GT(finite, 10);
  EXPECT_EQ(StepsHeardOf(std::numeric_limits<float>::quiet_NaN()), finite);
}

TEST(Auto, SaysWhereNoCodecKeepsItsBound) {
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "auto(error=1e-6,lag=1e-6)", 50000}});
    std::vector<std::string> aborts;
    for (uint64_t step = 0; step < 40; ++step)
      ASSERT_EQ(trainer.StepUntilCommitted(step, &aborts).outcome, gwStepCommitted) << step;
    if (rank != 0) return;
    EXPECT_THAT(LedgerText(comm), HasSubstr("every codec loses more than error= and lag= allow"));
    EXPECT_THAT(LedgerText(comm), HasSubstr("{\"spec\": \"bf16\", \"tensors\": 1, \"error\": 0.0"));
  });
}

TEST(Auto, AWrongSpecIsRefusedAndChangesNothing) {
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "bf16", 10000}, {"v", "none", 10}});
    EXPECT_EQ(gwTensorSetSpec(trainer.handles()[0], "auto(error=7)"), gwInvalidArgument);
    EXPECT_THAT(gwGetLastError(comm), HasSubstr("error"));
    EXPECT_EQ(gwTensorSetSpec(trainer.handles()[0], "auto(allow=\"zip\")"), gwInvalidArgument);
    EXPECT_THAT(LedgerText(comm), HasSubstr("\"spec\": \"bf16(feedback=off)\""));
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

}  // namespace
}  // namespace gradwire
