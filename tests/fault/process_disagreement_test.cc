// Ranks as processes that disagree, over every transport that reaches them: within a second all of
// them fail with the same code and hear the same field, both values and the ranks that have them,
// and go on. tests/integration/steps has the other fields, with ranks as threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fault/rank_processes.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kBoundNs = kNsPerSecond;
constexpr int64_t kHardBoundNs = 30 * kNsPerSecond;

// What all ranks do alike but one.
struct Disagreement {
  const char *field, *common, *odd;  // as the error names them; of a long value its beginning
  gwResult_t (*act)(gwComm_t comm, bool is_odd);
};

// Larger than one fragment, so that frames are under way when it is found.
constexpr size_t kElems = 200'000;

float data[kElems];  // of each process its own

gwResult_t Sum(gwComm_t comm, size_t count, gwDataType_t dtype, gwRedOp_t op = gwSum) {
  return gwAllReduce(data, data, count, dtype, op, comm, nullptr);
}

gwResult_t Broadcast(gwComm_t comm, int root) {
  return gwBroadcast(data, data, kElems, gwFloat32, root, comm, nullptr);
}

// A step with a tensor that is registered for it.
struct OneStep {
  uint64_t number = 5;
  float loss_scale = 1;
  const char* spec = "qsgd(bits=4)";
  std::vector<int64_t> shape = {static_cast<int64_t>(kElems)};
  bool sends_tensor = true;
  int sums = 0;  // plain all-reduces
};

// A rank that comes to the step when it is aborted already is refused, and that is all right.
void SendTensor(gwTensor_t tensor) {
  const std::vector<float> grad(kElems, 0.5f);
  std::vector<float> sum(kElems);
  gwRequest_t request = nullptr;
  if (gwAllReduceTensor(tensor, grad.data(), sum.data(), gwSum, nullptr, &request) == gwSuccess) {
    (void)gwRequestWait(request, -1);
    (void)gwRequestFree(request);
  }
}

// Its end must abort it: that succeeds, and what it aborted for is the last error.
gwResult_t RunAborted(gwComm_t comm, const OneStep& step) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = step.spec;
  gwTensor_t tensor = nullptr;
  gwResult_t result =
      gwTensorRegister(comm, "w", step.shape.data(), static_cast<int>(step.shape.size()), gwFloat32,
                       &config, &tensor);
  if (result == gwSuccess) result = gwStepBegin(comm, step.number);
  if (result != gwSuccess) return result;
  if (step.loss_scale != 1) (void)gwStepSetLossScale(comm, step.loss_scale);
  if (step.sends_tensor) SendTensor(tensor);
  for (int i = 0; i < step.sums; ++i) (void)Sum(comm, kElems, gwFloat32);
  gwStepOutcome_t outcome = gwStepCommitted;
  result = gwStepEnd(comm, &outcome);
  if (result == gwSuccess) result = gwTensorDeregister(tensor);
  if (result != gwSuccess) return result;
  return outcome == gwStepAborted ? gwMismatch : gwSuccess;
}

constexpr Disagreement kDisagreements[] = {
    {"count", "200000", "199999",
     [](gwComm_t comm, bool is_odd) { return Sum(comm, is_odd ? kElems - 1 : kElems, gwFloat32); }},
    {"count", "0", "7",
     [](gwComm_t comm, bool is_odd) { return Sum(comm, is_odd ? 7 : 0, gwFloat32); }},
    {"datatype", "float", "int32",
     [](gwComm_t comm, bool is_odd) { return Sum(comm, kElems, is_odd ? gwInt32 : gwFloat32); }},
    {"op", "sum", "max",
     [](gwComm_t comm, bool is_odd) {
       return Sum(comm, kElems, gwFloat32, is_odd ? gwMax : gwSum);
     }},
    {"root", "1", "2", [](gwComm_t comm, bool is_odd) { return Broadcast(comm, is_odd ? 2 : 1); }},
    {"operation", "all-reduce", "barrier",
     [](gwComm_t comm, bool is_odd) {
       return is_odd ? gwBarrier(comm, nullptr) : Sum(comm, kElems, gwFloat32);
     }},
    // Two calls, which the odd rank makes the other way round.
    {"operation", "all-reduce", "broadcast",
     [](gwComm_t comm, bool is_odd) {
       const gwResult_t result = is_odd ? Broadcast(comm, 0) : Sum(comm, kElems, gwFloat32);
       if (result != gwSuccess) return result;
       return is_odd ? Sum(comm, kElems, gwFloat32) : Broadcast(comm, 0);
     }},
    {"spec", "qsgd(bits=4", "qsgd(bits=6",
     [](gwComm_t comm, bool is_odd) {
       return RunAborted(comm, {.spec = is_odd ? "qsgd(bits=6)" : "qsgd(bits=4)"});
     }},
    {"step", "5", "6",
     [](gwComm_t comm, bool is_odd) {
       return RunAborted(comm, {.number = is_odd ? uint64_t{6} : uint64_t{5}});
     }},
    {"step", "5", "7",
     [](gwComm_t comm, bool is_odd) {
       return RunAborted(comm,
                         {.number = is_odd ? uint64_t{7} : uint64_t{5}, .sends_tensor = false});
     }},
    {"loss scale", "1", "2048",
     [](gwComm_t comm, bool is_odd) {
       return RunAborted(comm, {.loss_scale = is_odd ? 2048.0f : 1.0f});
     }},
    {"tensor table", "tensor w [2,3] float", "tensor w [3,2] float",
     [](gwComm_t comm, bool is_odd) {
       const std::vector<int64_t> shape = {is_odd ? 3 : 2, is_odd ? 2 : 3};
       return RunAborted(comm, {.shape = shape, .sends_tensor = false});
     }},
    // Of the same turn is also the all-reduce by which the row before has ended.
    {"operations since the last step", "2", "3",
     [](gwComm_t comm, bool is_odd) {
       return RunAborted(comm, {.sends_tensor = false, .sums = is_odd ? 2 : 1});
     }},
};

// "0, 2" of "1000 (rank 0, 2)": the ranks behind the first value that is `value` or begins so;
// empty: there is none.
std::string RanksOf(const std::string& text, const std::string& value) {
  const std::string mark = " (rank ";
  for (size_t at = text.find(value); at != text.npos; at = text.find(value, at + 1)) {
    const size_t end = std::min(text.find(' ', at + value.size()), text.size());
    const size_t ranks = end + mark.size();
    if (text.compare(end, mark.size(), mark) == 0)
      return text.substr(ranks, text.find(')', ranks) - ranks);
  }
  return "";
}

// Ranks that are not odd as errors list them: all of them, and each part of them.
std::set<std::string> ListsOfOthers(int odd, int world_size) {
  std::set<std::string> lists;
  for (unsigned int chosen = 1; chosen < 1u << world_size; ++chosen) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      if ((chosen >> rank & 1) != 0) ranks.push_back(rank);
    }
    if ((chosen >> odd & 1) == 0) lists.insert(fmt::format("{}", fmt::join(ranks, ", ")));
  }
  return lists;
}

// What follows the field's name, the same for all ranks. Of the others a rank that had yet to call
// when it was found has no value, so some of them may be left out.
std::string CheckTold(const RankReport& report, const Disagreement& d, int odd,
                      int world_size = kRanks) {
  const std::string text = report.text;
  EXPECT_EQ(report.code, gwMismatch) << text;
  EXPECT_TRUE(text.starts_with("ranks disagree: ")) << text;
  EXPECT_NE(text.find(fmt::format("; rank {}; ", report.rank)), text.npos) << text;
  const std::string field = fmt::format("; {}: ", d.field);
  const size_t at = text.find(field);
  EXPECT_NE(at, text.npos) << text;
  if (at == text.npos) return "";
  const std::string values = text.substr(at + field.size());
  const std::string common = RanksOf(values, d.common);
  EXPECT_EQ(RanksOf(values, d.odd), std::to_string(odd)) << text;
  EXPECT_TRUE(ListsOfOthers(odd, world_size).contains(common)) << text;
  return values;
}

// One report of this kind of each rank. Fewer, and a failure: another came, or none in time.
std::vector<RankReport> OneOfEach(ReportKind kind, RankProcesses* ranks,
                                  size_t world_size = kRanks) {
  std::vector<RankReport> all;
  const int64_t deadline_ns = NowNs() + kHardBoundNs;
  while (all.size() < world_size) {
    const std::optional<RankReport> report = ranks->Next(deadline_ns);
    if (!report || report->kind != kind) {
      ADD_FAILURE() << (report ? fmt::format("rank {}: {}", report->rank, report->text) : "hangs");
      break;
    }
    all.push_back(*report);
  }
  return all;
}

// The communicator is as good as before.
void CheckSum(RankSide& side, gwComm_t comm) {
  int32_t ranks = 1;
  const gwResult_t result = gwAllReduce(&ranks, &ranks, 1, gwInt32, gwSum, comm, nullptr);
  if (result != gwSuccess || ranks != kRanks)
    side.Tell(ReportKind::kFailed, result, gwGetLastError(comm));
}

// Each disagreement begins when the test says Go: a barrier would belong to the same turn, and be
// revoked with it on a rank that is still in it.
void DisagreeInTurn(RankSide& side, const std::string& transport, int odd) {
  gwComm_t comm = side.Join("debug=none; init_timeout_ms=20000; transport=" + transport);
  if (comm == nullptr) return;
  for (const Disagreement& d : kDisagreements) {
    side.Tell(ReportKind::kReady, 0, "");
    if (!side.AwaitGo()) return;
    gwResult_t result = d.act(comm, side.rank == odd);
    // Who had all it needed when the others found out hears of it in its next call.
    if (result == gwSuccess) result = gwBarrier(comm, nullptr);
    side.Tell(ReportKind::kError, result, gwGetLastError(comm));
    CheckSum(side, comm);
  }
  side.Leave(comm);
}

// The transport, and the rank that is odd.
class ProcessDisagreement : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ProcessDisagreement, IsToldToAll) {
  const auto& [transport, odd] = GetParam();
  RankProcesses ranks(kRanks, [&transport = transport, odd = odd](RankSide& side) {
    DisagreeInTurn(side, transport, odd);
  });
  for (const Disagreement& d : kDisagreements) {
    SCOPED_TRACE(fmt::format("{}: {}, {}", d.field, d.common, d.odd));
    ASSERT_EQ(OneOfEach(ReportKind::kReady, &ranks).size(), size_t{kRanks});
    const int64_t begin_ns = NowNs();
    for (int rank = 0; rank < kRanks; ++rank) ranks.Go(rank);
    const std::vector<RankReport> told = OneOfEach(ReportKind::kError, &ranks);
    ASSERT_EQ(told.size(), size_t{kRanks});
    std::set<std::string> values;
    for (const RankReport& report : told) {
      values.insert(CheckTold(report, d, odd));
      EXPECT_LE(report.time_ns - begin_ns, kBoundNs);
    }
    EXPECT_EQ(values.size(), 1u) << fmt::format("{}", fmt::join(values, "\n"));
  }
  EXPECT_EQ(OneOfEach(ReportKind::kDone, &ranks).size(), size_t{kRanks});
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessDisagreement,
                         testing::Combine(testing::ValuesIn(ProcessTransports()),
                                          testing::Range(0, kRanks)),
                         [](const auto& info) {
                           return fmt::format("{}Rank{}", std::get<0>(info.param),
                                              std::get<1>(info.param));
                         });

// The last call of all ranks, whose tree lets through whoever does not meet the odd one.
constexpr int kTreeRanks = 5;
constexpr Disagreement kLast[] = {
    {"count", "200000", "199999",
     [](gwComm_t comm, bool is_odd) {
       return gwBroadcast(data, data, is_odd ? kElems - 1 : kElems, gwFloat32, 0, comm, nullptr);
     }},
    {"count", "1000", "999",
     [](gwComm_t comm, bool is_odd) {
       return gwBroadcast(data, data, is_odd ? 999 : 1000, gwFloat32, 0, comm, nullptr);
     }},
    {"count", "1000", "999",
     [](gwComm_t comm, bool is_odd) {
       return gwReduce(data, data, is_odd ? 999 : 1000, gwFloat32, gwSum, 0, comm, nullptr);
     }},
};

void DisagreeAtTheEnd(RankSide& side, const std::string& transport, const Disagreement& d,
                      int odd) {
  gwComm_t comm = side.Join("debug=none; init_timeout_ms=20000; transport=" + transport);
  if (comm == nullptr) return;
  side.Tell(ReportKind::kReady, 0, "");
  if (!side.AwaitGo()) return;
  gwResult_t result = d.act(comm, side.rank == odd);
  std::string text = gwGetLastError(comm);
  const gwResult_t left = gwCommFinalize(comm);
  if (result == gwSuccess) result = left, text = gwGetLastError(comm);
  side.Tell(ReportKind::kError, result, text);
  if (side.AwaitGo()) side.Leave(comm);
}

class ProcessLastCall : public testing::TestWithParam<std::string> {};

TEST_P(ProcessLastCall, IsToldToAllThatLeaveBehindIt) {
  for (const Disagreement& d : kLast) {
    for (const int odd : {0, 3}) {
      SCOPED_TRACE(fmt::format("{}: {}, {} of rank {}", d.field, d.common, d.odd, odd));
      RankProcesses ranks(kTreeRanks,
                          [&](RankSide& side) { DisagreeAtTheEnd(side, GetParam(), d, odd); });
      ASSERT_EQ(OneOfEach(ReportKind::kReady, &ranks, kTreeRanks).size(), size_t{kTreeRanks});
      const int64_t begin_ns = NowNs();
      for (int rank = 0; rank < kTreeRanks; ++rank) ranks.Go(rank);
      std::set<std::string> values;
      for (const RankReport& report : OneOfEach(ReportKind::kError, &ranks, kTreeRanks)) {
        values.insert(CheckTold(report, d, odd, kTreeRanks));
        EXPECT_LE(report.time_ns - begin_ns, kBoundNs);
      }
      EXPECT_EQ(values.size(), 1u) << fmt::format("{}", fmt::join(values, "\n"));
      for (int rank = 0; rank < kTreeRanks; ++rank) ranks.Go(rank);
      EXPECT_EQ(OneOfEach(ReportKind::kDone, &ranks, kTreeRanks).size(), size_t{kTreeRanks});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessLastCall, testing::ValuesIn(ProcessTransports()),
                         [](const auto& info) { return info.param; });

// Settings in which one rank is odd; the transport is one, so ranks as threads cannot show it.
struct OddSetting {
  const char *name, *common, *odd;
};

class ProcessSettings : public testing::TestWithParam<OddSetting> {};

TEST_P(ProcessSettings, ThatDifferAreToldToAllAtTheStart) {
  const OddSetting& s = GetParam();
  for (int odd = 0; odd < kRanks; ++odd) {
    SCOPED_TRACE(odd);
    RankProcesses ranks(kRanks, [&](RankSide& side) {
      (void)side.Join(fmt::format("debug=none; init_timeout_ms=20000; {}={}", s.name,
                                  side.rank == odd ? s.odd : s.common));
    });
    std::set<std::string> values;
    for (const RankReport& report : OneOfEach(ReportKind::kFailed, &ranks)) {
      values.insert(CheckTold(report, {s.name, s.common, s.odd, nullptr}, odd));
    }
    EXPECT_EQ(values.size(), 1u) << fmt::format("{}", fmt::join(values, "\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, ProcessSettings,
                         testing::Values(OddSetting{"transport", "shm", "tcp"},
                                         OddSetting{"window", "4", "5"},
                                         OddSetting{"compress", "none", "bf16"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradwire
