// Ranks that disagree: all of them hear the same field and both values, soon, and go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <latch>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr auto kBound = std::chrono::seconds(1);

class Stopwatch {
 public:
  std::chrono::steady_clock::duration elapsed() const {
    return std::chrono::steady_clock::now() - start_;
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// What all ranks do alike but one.
struct Disagreement {
  const char* field;  // that the error names, with both values
  const char *common, *odd;
  gwResult_t (*call)(gwComm_t comm, bool is_odd);
};

thread_local float mine[4096], theirs[4096];

constexpr Disagreement kPlain[] = {
    {"count", "1000", "999",
     [](gwComm_t comm, bool is_odd) {
       return gwAllReduce(mine, theirs, is_odd ? 999 : 1000, gwFloat32, gwSum, comm, nullptr);
     }},
    {"count", "0", "7",
     [](gwComm_t comm, bool is_odd) {
       return gwAllReduce(mine, theirs, is_odd ? 7 : 0, gwFloat32, gwSum, comm, nullptr);
     }},
    {"datatype", "float", "int32",
     [](gwComm_t comm, bool is_odd) {
       return gwAllReduce(mine, theirs, 100, is_odd ? gwInt32 : gwFloat32, gwSum, comm, nullptr);
     }},
    {"op", "sum", "max",
     [](gwComm_t comm, bool is_odd) {
       return gwReduceScatter(mine, theirs, 100, gwFloat32, is_odd ? gwMax : gwSum, comm, nullptr);
     }},
    {"root", "1", "2",
     [](gwComm_t comm, bool is_odd) {
       return gwBroadcast(mine, theirs, 100, gwFloat32, is_odd ? 2 : 1, comm, nullptr);
     }},
    {"root", "0", "1",
     [](gwComm_t comm, bool is_odd) {
       return gwReduce(mine, theirs, 4000, gwFloat32, gwSum, is_odd ? 1 : 0, comm, nullptr);
     }},
    {"operation", "all-gather", "all-to-all",
     [](gwComm_t comm, bool is_odd) {
       return is_odd ? gwAllToAll(mine, theirs, 100, gwFloat32, comm, nullptr)
                     : gwAllGather(mine, theirs, 100, gwFloat32, comm, nullptr);
     }},
    {"operation", "barrier", "all-reduce",
     [](gwComm_t comm, bool is_odd) {
       return is_odd ? gwAllReduce(mine, theirs, 1, gwFloat32, gwSum, comm, nullptr)
                     : gwBarrier(comm, nullptr);
     }},
};

struct Named {
  const char* field;
  const char *common, *odd;  // values, or parts of them
  int reader, odd_rank;
};

// Whether a value with `part` in it is said to be of this rank alone.
bool IsOf(const std::string& text, size_t from, const char* part, int rank) {
  const std::string mark = fmt::format("(rank {})", rank);
  for (size_t at = text.find(part, from); at != text.npos; at = text.find(part, at + 1)) {
    const size_t ranks = text.find("(rank ", at);
    if (ranks != text.npos && text.compare(ranks, mark.size(), mark) == 0) return true;
  }
  return false;
}

// "; rank 2; ...; count: 1000 (rank 0, 2), 999 (rank 1)": the rank is who reads it, whoever found
// it, and each value stands before the ranks that hold it.
void ExpectNamed(const std::string& text, const Named& named) {
  EXPECT_NE(text.find(fmt::format("; rank {}; ", named.reader)), std::string::npos) << text;
  const size_t at = text.find(fmt::format("; {}: ", named.field));
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find(named.common, at), std::string::npos) << text;
  EXPECT_TRUE(IsOf(text, at, named.odd, named.odd_rank)) << text;
}

// Small slices, and so many of them in flight: ranks may notice at different operations.
class OddRank : public testing::TestWithParam<std::tuple<int, int>> {
 public:
  static int odd() { return std::get<0>(GetParam()); }
  static std::string settings() {
    return fmt::format("slice_elems=256; window={}", std::get<1>(GetParam()));
  }
};

TEST_P(OddRank, OfAPlainCallIsToldToAll) {
  // Nobody is in the next call while another may still be in this one, which would then fail with
  // it.
  std::barrier together(kRanks);
  RunRanks(kRanks, settings(), [&](int rank, gwComm_t comm) {
    for (const Disagreement& d : kPlain) {
      SCOPED_TRACE(testing::Message() << d.field << ", rank " << rank);
      const Stopwatch watch;
      gwResult_t result = d.call(comm, rank == odd());
      // Who had all it needed when the others found out hears of it in its next call.
      if (result == gwSuccess) result = gwBarrier(comm, nullptr);
      EXPECT_EQ(result, gwMismatch) << gwGetLastError(comm);
      EXPECT_LT(watch.elapsed(), kBound);
      ExpectNamed(gwGetLastError(comm), {d.field, d.common, d.odd, rank, odd()});
      EXPECT_TRUE(AllReduceWorks(rank, kRanks, comm)) << gwGetLastError(comm);
      together.arrive_and_wait();
    }
  });
}

// Its tree lets through whoever does not meet the odd rank; the next call is the last.
constexpr int kTreeRanks = 5;

constexpr Disagreement kLast[] = {
    {"count", "1000", "999",
     [](gwComm_t comm, bool is_odd) {
       return gwBroadcast(mine, theirs, is_odd ? 999 : 1000, gwFloat32, 0, comm, nullptr);
     }},
    {"count", "1000", "999",
     [](gwComm_t comm, bool is_odd) {
       return gwReduce(mine, theirs, is_odd ? 999 : 1000, gwFloat32, gwSum, 0, comm, nullptr);
     }},
    {"root", "1", "2",
     [](gwComm_t comm, bool is_odd) {
       return gwBroadcast(mine, theirs, 100, gwFloat32, is_odd ? 2 : 1, comm, nullptr);
     }},
    {"op", "sum", "max",
     [](gwComm_t comm, bool is_odd) {
       return gwReduce(mine, theirs, 100, gwFloat32, is_odd ? gwMax : gwSum, 4, comm, nullptr);
     }},
};

class OddLeaver : public testing::TestWithParam<std::tuple<int, Disagreement>> {};

TEST_P(OddLeaver, OfTheLastCallIsToldToAll) {
  const auto& [odd, d] = GetParam();
  RunRanks(kTreeRanks, "", [&, odd = odd, d = d](int rank, gwComm_t comm) {
    SCOPED_TRACE(testing::Message() << d.field << ", rank " << rank);
    const Stopwatch watch;
    gwResult_t result = d.call(comm, rank == odd);
    const bool was_through = result == gwSuccess;
    if (was_through) result = gwCommFinalize(comm);
    EXPECT_EQ(result, gwMismatch) << gwGetLastError(comm);
    EXPECT_LT(watch.elapsed(), kBound);
    ExpectNamed(gwGetLastError(comm), {d.field, d.common, d.odd, rank, odd});
    if (!was_through) {
      EXPECT_EQ(gwCommFinalize(comm), gwSuccess) << "told twice: " << gwGetLastError(comm);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, OddLeaver,
                         testing::Combine(testing::Range(0, kTreeRanks), testing::ValuesIn(kLast)));

// All but the one that sends to it are through, and in gwCommFinalize, before it calls.
TEST(OddLeaf, ThatComesLateIsToldToAllThatLeave) {
  for (const int odd : {3, 4}) {
    const int sender = odd == 3 ? 2 : 0;
    std::latch through(kTreeRanks - 2);
    RunRanks(kTreeRanks, "", [&](int rank, gwComm_t comm) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", odd " << odd);
      const bool is_odd = rank == odd;
      if (is_odd) through.wait();
      const Stopwatch watch;
      gwResult_t result = kLast[0].call(comm, is_odd);
      if (!is_odd && rank != sender) {
        EXPECT_EQ(result, gwSuccess) << gwGetLastError(comm);
        through.count_down();
      }
      const bool was_through = result == gwSuccess;
      if (was_through) result = gwCommFinalize(comm);
      EXPECT_EQ(result, gwMismatch) << gwGetLastError(comm);
      EXPECT_LT(watch.elapsed(), kBound);
      ExpectNamed(gwGetLastError(comm), {"count", "1000", "999", rank, odd});
      if (!was_through) {
        EXPECT_EQ(gwCommFinalize(comm), gwSuccess) << gwGetLastError(comm);
      }
    });
  }
}

// In a step, with what the odd rank does instead. Every rank ends its step and hears why.
struct StepDisagreement {
  const char* field;
  const char *common, *odd;
  void (*step)(gwComm_t comm, Trainer* trainer, bool is_odd, StepResult* result);
};

void EndEmptyStep(gwComm_t comm, StepResult* result) {
  EXPECT_EQ(gwStepBegin(comm, 5), gwSuccess);
  result->code = gwStepEnd(comm, &result->outcome);
}

// With one tensor more, which stays unused.
void RegisterForAStep(gwComm_t comm, const std::vector<int64_t>& shape, gwDataType_t dtype,
                      StepResult* result) {
  gwTensor_t more = nullptr;
  EXPECT_EQ(gwTensorRegister(comm, "more", shape.data(), static_cast<int>(shape.size()), dtype,
                             nullptr, &more),
            gwSuccess);
  EndEmptyStep(comm, result);
  EXPECT_EQ(gwTensorDeregister(more), gwSuccess);
}

// The end of a step with an operation that no other rank has.
void FinishInDoubt(gwComm_t comm, gwResult_t submitted, gwRequest_t request, StepResult* result) {
  // The other two may have found out before this rank submits.
  EXPECT_TRUE(submitted == gwSuccess || submitted == gwAborted) << gwGetLastError(comm);
  if (submitted == gwSuccess) {
    EXPECT_NE(gwRequestWait(request, -1), gwSuccess);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
  }
  result->code = gwStepEnd(comm, &result->outcome);
}

constexpr StepDisagreement kInSteps[] = {
    {"spec", "bits=4", "bits=6",
     [](gwComm_t, Trainer* trainer, bool is_odd, StepResult* result) {
       const gwTensor_t tensor = trainer->handles()[2];
       if (is_odd) {
         EXPECT_EQ(gwTensorSetSpec(tensor, "qsgd(bits=6,feedback=on)"), gwSuccess);
       }
       *result = trainer->Step(5);
       EXPECT_EQ(gwTensorSetSpec(tensor, "qsgd(bits=4,feedback=on)"), gwSuccess);
     }},
    {"spec", "bf16", "fp16",
     [](gwComm_t, Trainer* trainer, bool is_odd, StepResult* result) {
       if (is_odd) {
         EXPECT_EQ(gwTensorSetSpec(trainer->handles()[1], "fp16"), gwSuccess);
       }
       *result = trainer->Step(5);
       EXPECT_EQ(gwTensorSetSpec(trainer->handles()[1], "bf16"), gwSuccess);
     }},
    {"step", "5", "6",
     [](gwComm_t, Trainer* trainer, bool is_odd, StepResult* result) {
       *result = trainer->Step(is_odd ? 6 : 5);
     }},
    {"loss scale", "1", "2048",
     [](gwComm_t, Trainer* trainer, bool is_odd, StepResult* result) {
       trainer->loss_scale = is_odd ? 2048.0f : 1.0f;
       *result = trainer->Step(5);
       trainer->loss_scale = 1.0f;
     }},
    {"operations since the last step", "1", "0",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       EXPECT_EQ(gwStepBegin(comm, 5), gwSuccess);
       if (!is_odd) (void)gwAllReduce(mine, theirs, 9, gwFloat32, gwSum, comm, nullptr);
       result->code = gwStepEnd(comm, &result->outcome);
     }},
    {"operations since the last step", "1", "2",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       EXPECT_EQ(gwStepBegin(comm, 5), gwSuccess);
       for (int i = 0; i < (is_odd ? 2 : 1); ++i) {
         (void)gwAllReduce(mine, theirs, 9, gwFloat32, gwSum, comm, nullptr);
       }
       result->code = gwStepEnd(comm, &result->outcome);
     }},
    {"step", "5", "50",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       EXPECT_EQ(gwStepBegin(comm, is_odd ? 50 : 5), gwSuccess);
       result->code = gwStepEnd(comm, &result->outcome);
     }},
    {"tensor table", "no tensor more", "tensor more [3] float",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       if (!is_odd) return EndEmptyStep(comm, result);
       RegisterForAStep(comm, {3}, gwFloat32, result);
     }},
    {"tensor table", "tensor more [3] float", "no tensor more",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       if (is_odd) return EndEmptyStep(comm, result);
       RegisterForAStep(comm, {3}, gwFloat32, result);
     }},
    {"tensor table", "tensor more [2,3] float", "tensor more [3,2] float",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       const std::vector<int64_t> shape = {is_odd ? 3 : 2, is_odd ? 2 : 3};
       RegisterForAStep(comm, shape, gwFloat32, result);
     }},
    {"tensor table", "tensor more [4] float", "tensor more [4] bfloat16",
     [](gwComm_t comm, Trainer*, bool is_odd, StepResult* result) {
       RegisterForAStep(comm, {4}, is_odd ? gwBfloat16 : gwFloat32, result);
     }},
    {"operation", "all-reduce of tensors", "reduce-scatter of a tensor",
     [](gwComm_t comm, Trainer* trainer, bool is_odd, StepResult* result) {
       EXPECT_EQ(gwStepBegin(comm, 5), gwSuccess);
       gwRequest_t request = nullptr;
       const gwTensor_t tensor = trainer->handles()[4];
       const auto submit = is_odd ? gwReduceScatterTensor : gwAllReduceTensor;
       const gwResult_t submitted = submit(tensor, mine, theirs, gwSum, nullptr, &request);
       FinishInDoubt(comm, submitted, request, result);
     }},
    {"tensors", "exact", "cast",
     [](gwComm_t comm, Trainer* trainer, bool is_odd, StepResult* result) {
       EXPECT_EQ(gwStepBegin(comm, 5), gwSuccess);
       gwRequest_t request = nullptr;
       const gwTensor_t tensor = trainer->handles()[is_odd ? 1 : 0];
       const gwResult_t submitted =
           gwAllReduceTensor(tensor, mine, theirs, gwSum, nullptr, &request);
       FinishInDoubt(comm, submitted, request, result);
     }},
};

TEST_P(OddRank, OfAStepIsToldToAll) {
  RunRanks(kRanks, settings(), [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    uint64_t next = 100;
    ASSERT_EQ(trainer.Step(next++).outcome, gwStepCommitted);
    for (const StepDisagreement& d : kInSteps) {
      SCOPED_TRACE(testing::Message() << d.field << ", rank " << rank);
      const std::string before = SavedState(comm);
      const Stopwatch watch;
      StepResult result;
      d.step(comm, &trainer, rank == odd(), &result);
      EXPECT_LT(watch.elapsed(), kBound);
      EXPECT_EQ(result.outcome, gwStepAborted);
      ExpectNamed(gwGetLastError(comm), {d.field, d.common, d.odd, rank, odd()});
      EXPECT_EQ(SavedState(comm), before);
      const StepResult good = trainer.Step(next++);
      ASSERT_EQ(good.outcome, gwStepCommitted) << good.text;
    }
  });
}

// The vote alone finds these, and the next call is the first that can tell.
TEST(OddStep, ThatNobodyWaitsForIsToldToAll) {
  for (int odd = 0; odd < kRanks; ++odd) {
    for (const bool in_table : {false, true}) {
      RunRanks(kRanks, "", [=](int rank, gwComm_t comm) {
        SCOPED_TRACE(testing::Message() << "rank " << rank << ", odd " << odd);
        const bool is_odd = rank == odd;
        const int64_t shape[] = {in_table && is_odd ? 3 : 2};
        gwTensor_t tensor = nullptr;
        EXPECT_EQ(gwTensorRegister(comm, "w", shape, 1, gwFloat32, nullptr, &tensor), gwSuccess);
        EXPECT_EQ(gwStepBegin(comm, !in_table && is_odd ? 6 : 5), gwSuccess);
        EXPECT_EQ(gwStepEnd(comm, nullptr), gwSuccess);
        EXPECT_EQ(gwCommFinalize(comm), gwRevoked);
        const std::string text = gwGetLastError(comm);
        const Named step = {"step", "5 (rank ", "6 (rank ", rank, odd};
        const Named table = {"tensor table", "tensor w [2] float", "tensor w [3]", rank, odd};
        ExpectNamed(text, in_table ? table : step);
        if (!is_odd) {
          EXPECT_THAT(text, testing::HasSubstr(fmt::format("; peer {}; ", odd)));
        }
      });
    }
  }
}

// Whoever was heard first.
TEST_P(OddRank, ThatSubmitsNothingIsToldToAll) {
  std::barrier together(kRanks);
  RunRanks(kRanks, settings(), [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    ASSERT_EQ(gwStepBegin(comm, 5), gwSuccess);
    gwRequest_t request = nullptr;
    if (rank != odd()) {
      EXPECT_EQ(gwAllReduceTensor(trainer.handles()[0], mine, theirs, gwSum, nullptr, &request),
                gwSuccess);
    }
    together.arrive_and_wait();
    StepResult result;
    if (rank != odd()) {
      FinishInDoubt(comm, gwSuccess, request, &result);
    } else {
      result.code = gwStepEnd(comm, &result.outcome);
    }
    EXPECT_EQ(result.outcome, gwStepAborted);
    ExpectNamed(gwGetLastError(comm),
                {"operations since the last step", "1 (rank ", "0 (", rank, odd()});
  });
}

// One rank loads a state from before the residuals were sent on; the others keep none.
TEST_P(OddRank, ThatLoadsAnotherStateIsToldToAll) {
  RunRanks(kRanks, settings(), [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"kept", "qsgd(bits=4,feedback=on)", 999}});
    ASSERT_EQ(trainer.Step(1).outcome, gwStepCommitted);
    const std::string with_residual = SavedState(comm);
    ASSERT_EQ(gwTensorSetSpec(trainer.handles()[0], "none"), gwSuccess);
    ASSERT_EQ(trainer.Step(2).outcome, gwStepCommitted);
    const std::string without = SavedState(comm);
    const std::string& loaded = rank == odd() ? with_residual : without;
    ASSERT_EQ(gwStateLoad(comm, loaded.data(), loaded.size()), gwSuccess);
    const Stopwatch watch;
    EXPECT_EQ(trainer.Step(3).outcome, gwStepAborted);
    EXPECT_LT(watch.elapsed(), kBound);
    ExpectNamed(gwGetLastError(comm), {"residual", "none", "kept", rank, odd()});
    ASSERT_EQ(gwStateLoad(comm, without.data(), without.size()), gwSuccess);
    EXPECT_EQ(trainer.Step(3).outcome, gwStepCommitted) << gwGetLastError(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, OddRank,
                         testing::Combine(testing::Range(0, kRanks),
                                          testing::Values(1, 2, 4, 8, 16)));

struct SettingDisagreement {
  const char *name, *common, *odd;
};

class OddSetting : public testing::TestWithParam<SettingDisagreement> {};

TEST_P(OddSetting, IsToldToAllAtTheStart) {
  const SettingDisagreement& d = GetParam();
  for (int odd = 0; odd < kRanks; ++odd) {
    std::vector<std::string> settings(kRanks, std::string(d.name) + "=" + d.common);
    settings[odd] = std::string(d.name) + "=" + d.odd;
    const Stopwatch watch;
    RunRanksWith(settings, [&](int rank, gwResult_t started, gwComm_t) {
      SCOPED_TRACE(testing::Message() << d.name << ", rank " << rank << ", odd " << odd);
      EXPECT_EQ(started, gwMismatch) << gwGetLastError(nullptr);
      ExpectNamed(gwGetLastError(nullptr), {d.name, d.common, d.odd, rank, odd});
    });
    EXPECT_LT(watch.elapsed(), kBound);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, OddSetting,
                         testing::Values(SettingDisagreement{"window", "4", "5"},
                                         SettingDisagreement{"compress", "none", "bf16"},
                                         SettingDisagreement{"seed", "0", "17"},
                                         SettingDisagreement{"slice_elems", "512", "256"},
                                         SettingDisagreement{"nonfinite", "propagate", "skip"},
                                         SettingDisagreement{"transaction", "on", "off"},
                                         SettingDisagreement{"heartbeat_ms", "500", "700"},
                                         SettingDisagreement{"heartbeat_timeout_ms", "9000",
                                                             "8000"},
                                         SettingDisagreement{"algorithm", "auto", "ring"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(OddWorldSize, IsToldToAllAtTheStart) {
  for (int odd = 0; odd < kRanks; ++odd) {
    gwUniqueId id;
    ASSERT_EQ(gwGetUniqueId(&id), gwSuccess);
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        gwComm_t comm = nullptr;
        const int ranks = rank == odd ? kRanks + 1 : kRanks;
        SCOPED_TRACE(testing::Message() << "rank " << rank << ", odd " << odd);
        gwConfig_t config = GW_CONFIG_INITIALIZER;
        config.settings = "transport=loopback";
        EXPECT_EQ(gwCommInitRankConfig(&comm, ranks, id, rank, &config), gwMismatch)
            << gwGetLastError(nullptr);
        const std::string text = gwGetLastError(nullptr);
        const std::string field =
            fmt::format("; world size: {} (rank 0), {} (rank ", odd == 0 ? 4 : 3, odd == 0 ? 3 : 4);
        EXPECT_NE(text.find(field), std::string::npos) << text;
        EXPECT_NE(text.find(fmt::format("; rank {}; ", rank)), std::string::npos) << text;
        EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(watch.elapsed(), kBound);
  }
}

// Rank 0 is alone, as it was told, and is through before the other one comes.
TEST(OddWorldSize, OfARankZeroThatIsAloneIsNotWaitedFor) {
  gwUniqueId id;
  ASSERT_EQ(gwGetUniqueId(&id), gwSuccess);
  gwComm_t alone = nullptr;
  ASSERT_EQ(gwCommInitRank(&alone, 1, id, 0), gwSuccess);
  const Stopwatch watch;
  gwComm_t comm = nullptr;
  EXPECT_EQ(gwCommInitRank(&comm, 2, id, 1), gwPeerLost);
  EXPECT_LT(watch.elapsed(), kBound);
  EXPECT_THAT(gwGetLastError(nullptr), testing::HasSubstr("as many ranks as rank 0 was told"));
  EXPECT_EQ(gwCommDestroy(alone), gwSuccess);
}

}  // namespace
}  // namespace gradwire
