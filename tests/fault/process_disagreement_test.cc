// Ranks as processes over UCX that disagree: all of them hear the field and both values within a
// second of the last one's call, and go on. tests/integration/steps has the other fields, with
// ranks as threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/fault/rank_processes.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kBoundNs = 1'000'000'000;
constexpr int64_t kHardBoundNs = 30'000'000'000;

// What all ranks do alike but one.
struct Disagreement {
  std::string field, common, odd;  // as the error names them
  gwResult_t (*act)(gwComm_t comm, bool is_odd);
};

// Larger than one fragment, so that frames are under way when it is found.
constexpr size_t kElems = 200'000;

gwResult_t WithOtherCount(gwComm_t comm, bool is_odd) {
  std::vector<float> data(kElems);
  const size_t count = kElems - (is_odd ? 1 : 0);
  const gwResult_t result =
      gwAllReduce(data.data(), data.data(), count, gwFloat32, gwSum, comm, nullptr);
  // Who had all it needed when the others found out hears of it in its next call.
  return result == gwSuccess ? gwBarrier(comm, nullptr) : result;
}

gwResult_t WithOtherType(gwComm_t comm, bool is_odd) {
  std::vector<float> data(kElems);
  const gwDataType_t dtype = is_odd ? gwInt32 : gwFloat32;
  const gwResult_t result =
      gwAllReduce(data.data(), data.data(), kElems, dtype, gwSum, comm, nullptr);
  return result == gwSuccess ? gwBarrier(comm, nullptr) : result;
}

// Two calls, which the odd rank makes the other way round.
gwResult_t InOtherOrder(gwComm_t comm, bool is_odd) {
  std::vector<float> data(kElems);
  const auto reduce = [&] {
    return gwAllReduce(data.data(), data.data(), kElems, gwFloat32, gwSum, comm, nullptr);
  };
  const auto broadcast = [&] {
    return gwBroadcast(data.data(), data.data(), kElems, gwFloat32, 0, comm, nullptr);
  };
  const gwResult_t result = is_odd ? broadcast() : reduce();
  if (result != gwSuccess) return result;
  return is_odd ? reduce() : broadcast();
}

// A step without operations, before which the odd rank has registered another shape.
gwResult_t WithOtherTensorTable(gwComm_t comm, bool is_odd) {
  const int64_t shape[] = {is_odd ? 3 : 2, is_odd ? 2 : 3};
  gwTensor_t tensor = nullptr;
  gwResult_t result = gwTensorRegister(comm, "more", shape, 2, gwFloat32, nullptr, &tensor);
  if (result == gwSuccess) result = gwStepBegin(comm, 1);
  if (result != gwSuccess) return result;
  gwStepOutcome_t outcome = gwStepCommitted;
  result = gwStepEnd(comm, &outcome);
  if (result != gwSuccess || outcome != gwStepAborted) return gwInternalError;
  // The end itself succeeds: what it aborted for is the last error.
  return gwMismatch;
}

gwResult_t WithOtherSpec(gwComm_t comm, bool is_odd) {
  const std::vector<float> grad(kElems, 0.5f);
  std::vector<float> sum(kElems);
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = is_odd ? "qsgd(bits=6)" : "qsgd(bits=4)";
  const auto elems = static_cast<int64_t>(kElems);
  gwTensor_t tensor = nullptr;
  gwResult_t result = gwTensorRegister(comm, "w", &elems, 1, gwFloat32, &config, &tensor);
  if (result == gwSuccess) result = gwStepBegin(comm, 1);
  if (result != gwSuccess) return result;
  gwRequest_t request = nullptr;
  result = gwAllReduceTensor(tensor, grad.data(), sum.data(), gwSum, nullptr, &request);
  if (result == gwSuccess) result = gwRequestWait(request, -1);
  if (gwRequestFree(request) != gwSuccess) return gwInternalError;
  gwStepOutcome_t outcome = gwStepCommitted;
  const gwResult_t ended = gwStepEnd(comm, &outcome);
  if (ended != gwSuccess || outcome != gwStepAborted) return gwInternalError;
  return result;
}

void DisagreeOnce(RankSide& side, const Disagreement& d, int odd) {
  gwUniqueId id;
  if (!side.ExchangeId(&id)) return side.Tell(ReportKind::kVoid, 0, "");
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = "transport=ucx; debug=none; init_timeout_ms=20000";
  gwComm_t comm = nullptr;
  gwResult_t result = gwCommInitRankConfig(&comm, kRanks, id, side.rank, &config);
  if (result != gwSuccess) return side.Tell(ReportKind::kFailed, result, gwGetLastError(nullptr));
  // No barrier here: outside steps it belongs to the same turn, and is revoked with it on a rank
  // that is still in it.
  side.Tell(ReportKind::kReady, 0, "");
  result = d.act(comm, side.rank == odd);
  side.Tell(ReportKind::kError, result, gwGetLastError(comm));
  // The communicator is as good as before.
  int32_t ranks = 1;
  result = gwAllReduce(&ranks, &ranks, 1, gwInt32, gwSum, comm, nullptr);
  if (result != gwSuccess || ranks != kRanks) {
    side.Tell(ReportKind::kFailed, result, gwGetLastError(comm));
  }
  if (gwCommDestroy(comm) != gwSuccess) side.Tell(ReportKind::kFailed, 0, "gwCommDestroy");
  side.Tell(ReportKind::kDone, 0, "");
}

void ExpectToldToAll(const Disagreement& d) {
  for (int odd = 0; odd < kRanks; ++odd) {
    RankProcesses ranks(kRanks, [&](RankSide& side) { DisagreeOnce(side, d, odd); });
    const int64_t deadline_ns = NowNs() + kHardBoundNs;
    int64_t last_call_ns = 0, last_return_ns = 0;
    int told = 0, done = 0;
    while (!ranks.all_gone() && NowNs() < deadline_ns) {
      const std::optional<RankReport> report = ranks.Next(deadline_ns);
      if (!report) continue;
      SCOPED_TRACE(testing::Message() << "rank " << report->rank << ", odd " << odd);
      done += report->kind == ReportKind::kDone ? 1 : 0;
      EXPECT_NE(report->kind, ReportKind::kFailed) << report->text;
      if (report->kind == ReportKind::kReady)
        last_call_ns = std::max(last_call_ns, report->time_ns);
      if (report->kind != ReportKind::kError) continue;
      last_return_ns = std::max(last_return_ns, report->time_ns);
      // A rank that comes to a step when it is aborted already has its operation refused for that,
      // and reads of the values, which carry the ranks that hold them.
      EXPECT_TRUE(report->code == gwMismatch || report->code == gwAborted) << report->text;
      const std::string text = report->text;
      const size_t at = text.find("; " + d.field + ": ");
      ASSERT_NE(at, std::string::npos) << text;
      EXPECT_NE(text.find(d.common, at), std::string::npos) << text;
      EXPECT_NE(text.find(d.odd, at), std::string::npos) << text;
      EXPECT_NE(text.find(fmt::format("(rank {})", odd), at), std::string::npos) << text;
      ++told;
    }
    EXPECT_TRUE(ranks.all_gone()) << "hangs";
    EXPECT_LE(last_return_ns - last_call_ns, kBoundNs);
    EXPECT_EQ(told, kRanks);
    EXPECT_EQ(done, kRanks);
  }
}

TEST(ProcessDisagreement, OnTheCountIsToldToAll) {
  ExpectToldToAll({"count", "200000 (rank", "199999 (rank", WithOtherCount});
}

TEST(ProcessDisagreement, OnTheTypeIsToldToAll) {
  ExpectToldToAll({"datatype", "float (rank", "int32 (rank", WithOtherType});
}

TEST(ProcessDisagreement, OnTheOrderIsToldToAll) {
  ExpectToldToAll({"operation", "all-reduce (rank", "broadcast (rank", InOtherOrder});
}

TEST(ProcessDisagreement, OnTheTensorTableIsToldToAll) {
  ExpectToldToAll({"tensor table", "tensor more [2,3] float (rank", "tensor more [3,2] float (rank",
                   WithOtherTensorTable});
}

TEST(ProcessDisagreement, OnTheSpecIsToldToAll) {
  ExpectToldToAll({"spec", "bits=4", "bits=6", WithOtherSpec});
}

}  // namespace
}  // namespace gradwire
