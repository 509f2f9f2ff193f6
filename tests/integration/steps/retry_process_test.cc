// retry_test.cc between processes, over every transport that reaches them: what aborts a step does
// not change the bits of the step that is run again.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/steps/retried_training.h"
#include "tests/integration/steps/trainer.h"
#include "tests/lib/forked_ranks.h"
#include "tests/lib/test_seed.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int kLimitS = 200;

// Null: a failure of the test, as is all that goes wrong below.
gwComm_t Join(ForkedRank& self, const std::string& transport) {
  gwUniqueId id = {};
  if (self.rank() == 0) {
    EXPECT_EQ(gwGetUniqueId(&id), gwSuccess);
  }
  const std::string given = self.Gather(std::string(id.internal, sizeof id.internal))[0];
  std::memcpy(id.internal, given.data(), given.size());
  const std::string settings = "debug=none; slice_elems=256; transport=" + transport;
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  EXPECT_EQ(gwCommInitRankConfig(&comm, self.world_size(), id, self.rank(), &config), gwSuccess)
      << gwGetLastError(nullptr);
  return comm;
}

TrainedRank Train(ForkedRank& self, const std::string& transport,
                  const std::vector<TrainedTensor>& tensors, const BeforeStep& before = nullptr) {
  gwComm_t comm = Join(self, transport);
  if (comm == nullptr) return {};
  const TrainedRank run = TrainRank(comm, self.rank(), tensors, before);
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  return run;
}

// Trains without trouble and then with each kind of faults. What the aborts of one of these runs
// were is for `judge`; the number of all is returned.
size_t ExpectSameInSpiteOf(
    const std::vector<std::string>& faults, ForkedRank& self, const std::string& transport,
    const std::vector<TrainedTensor>& tensors,
    const std::function<void(const std::vector<std::string>& aborts)>& judge = [](const auto&) {}) {
  const TrainedRank good = Train(self, transport, tensors);
  EXPECT_TRUE(good.aborts.empty());
  size_t aborts = 0;
  for (const std::string& some : faults) {
    SCOPED_TRACE(testing::Message() << "rank " << self.rank() << ", " << some);
    const TrainedRank bad = Train(self, "faulty(" + transport + "," + some + ")", tensors);
    ExpectSameBits(good, bad);
    judge(bad.aborts);
    aborts += bad.aborts.size();
  }
  return aborts;
}

class RetryProcesses : public testing::TestWithParam<std::string> {
 protected:
  // Each rank has printed what it found.
  static void RunRanks(const std::function<void(ForkedRank&)>& body) {
    const auto judged = [&](ForkedRank& self) {
      body(self);
      return std::string(HasFailure() ? "failed" : "");
    };
    EXPECT_EQ(Failures(RunForked(kRanks, judged, kLimitS)), "");
  }
};

TEST_P(RetryProcesses, AfterDamagedFramesGivesTheSameBits) {
  SCOPED_TRACE(TestSeedText());
  std::vector<std::string> faults;
  for (uint64_t i = 0; i < 2; ++i) {
    faults.push_back("seed=" + std::to_string(TestSeed() + i) +
                     ",corrupt=0.003,delay=0.1,late_sent=0.1,full=0.1");
  }
  // Of the whole run one fragment of each rank, at whatever place it has.
  for (int at = 11; at < 200; at += 61) faults.push_back("corrupt_at=" + std::to_string(at));
  RunRanks([&](ForkedRank& self) {
    EXPECT_GT(ExpectSameInSpiteOf(faults, self, GetParam(), SomeTensors()), faults.size())
        << "the faults did not reach the steps";
  });
}

// A payload that passes every checksum and that no encoder writes.
TEST_P(RetryProcesses, AfterADecodeErrorGivesTheSameBits) {
  const std::vector<TrainedTensor> tensors = {{"a", "qsgd(bits=4,feedback=on)", 3001},
                                              {"b", "efsign", 300}};
  RunRanks([&](ForkedRank& self) {
    const auto judge = [](const std::vector<std::string>& aborts) {
      EXPECT_FALSE(aborts.empty());
      for (const std::string& text : aborts) {
        EXPECT_NE(text.find("data corrupt: a payload is not what its codec writes"), text.npos)
            << text;
      }
    };
    EXPECT_GE(ExpectSameInSpiteOf({"corrupt_sealed_at=0", "corrupt_sealed_at=57"}, self, GetParam(),
                                  tensors, judge),
              2u);
  });
}

TEST_P(RetryProcesses, AfterAMismatchGivesTheSameBits) {
  RunRanks([](ForkedRank& self) {
    const TrainedRank good = Train(self, GetParam(), SomeTensors());
    const TrainedRank bad =
        Train(self, GetParam(), SomeTensors(), DisagreeAtFirst(self.rank(), kRanks));
    ExpectSameBits(good, bad);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, RetryProcesses, testing::ValuesIn(ProcessTransports()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire
