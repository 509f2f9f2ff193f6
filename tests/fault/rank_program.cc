#include "tests/fault/rank_program.h"

#include <thread>

namespace gradwire {
namespace {

constexpr int64_t kForever = INT64_MAX;
constexpr int64_t kRoundsBeforeFinalize = 3;

std::string SettingsOf(const FaultTrial& trial, int rank) {
  std::string settings =
      "debug=none; abort_timeout_ms=1500; slice_elems=8192; transport=" + trial.transport;
  // Only the death of rank 0 is noticed before it has joined.
  const bool is_noticed = trial.fault == Fault::kKill && trial.victim == 0;
  // Beside other programs four ranks need up to a second to meet.
  if (!is_noticed) settings += "; init_timeout_ms=1500";
  if (trial.fault == Fault::kStop) settings += "; heartbeat_ms=100; heartbeat_timeout_ms=500";
  // Small fragments, so that messages have several.
  if (!trial.failpoint.empty()) settings += "; fragment_bytes=4096";
  if (!trial.failpoint.empty() && rank == trial.victim)
    settings += "; failpoint=" + trial.failpoint;
  return settings;
}

}  // namespace

gwResult_t RankProgram::Start() {
  gwUniqueId id;
  if (!side_->ExchangeId(&id)) return gwInProgress;
  const std::string settings = SettingsOf(trial_, side_->rank);
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  return gwCommInitRankConfig(&comm_, side_->world_size, id, side_->rank, &config);
}

gwResult_t RankProgram::Register() {
  call_ = "gwTensorRegister";
  const char* const specs[] = {"none", "qsgd(bits=4,feedback=on)", "bf16"};
  for (size_t i = 0; i < 3; ++i) {
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = specs[i];
    const auto elems = static_cast<int64_t>(data_.size());
    const std::string name = "w" + std::to_string(i);
    const gwResult_t result = gwTensorRegister(comm_, name.c_str(), &elems, 1, gwFloat32, &config,
                                               &tensors_.emplace_back(nullptr));
    if (result != gwSuccess) return result;
  }
  return gwSuccess;
}

gwResult_t RankProgram::Collectives(int64_t round) {
  const size_t counts[] = {1, 50'000, 700};
  const size_t count = counts[round % 3];
  const int root = static_cast<int>(round % side_->world_size);
  call_ = "all-reduce";
  gwResult_t result =
      gwAllReduce(data_.data(), out_.data(), count, gwFloat32, gwSum, comm_, nullptr);
  if (result != gwSuccess) return result;
  call_ = "broadcast";
  result = gwBroadcast(out_.data(), out_.data(), count, gwFloat32, root, comm_, nullptr);
  if (result != gwSuccess) return result;
  call_ = "barrier";
  return gwBarrier(comm_, nullptr);
}

gwResult_t RankProgram::Step(uint64_t step) {
  call_ = "gwStepBegin";
  gwResult_t result = gwStepBegin(comm_, step);
  if (result == gwSuccess) call_ = "all-reduce of tensors";
  for (size_t i = 0; i < tensors_.size() && result == gwSuccess; ++i) {
    gwRequest_t request = nullptr;
    result = gwAllReduceTensor(tensors_[i], data_.data(), out_.data(), gwAvg, nullptr, &request);
    if (result == gwSuccess) result = gwRequestWait(request, -1);
    if (gwRequestFree(request) != gwSuccess) side_->Tell(ReportKind::kFailed, 0, "free");
  }
  if (result != gwSuccess) return result;
  call_ = "gwStepEnd";
  gwStepOutcome_t outcome = gwStepAborted;
  return gwStepEnd(comm_, &outcome);
}

gwResult_t RankProgram::Work(int64_t round) {
  return trial_.phase == Phase::kSteps ? Step(static_cast<uint64_t>(round)) : Collectives(round);
}

gwResult_t RankProgram::WorkUntilError() {
  const int64_t rounds = trial_.phase == Phase::kFinalize ? kRoundsBeforeFinalize : kForever;
  for (int64_t round = 1; round <= rounds; ++round) {
    if (const gwResult_t result = Work(round); result != gwSuccess) return result;
  }
  call_ = "gwCommFinalize";
  return gwCommFinalize(comm_);
}

void RankProgram::Leave() {
  const int64_t begin_ns = NowNs();
  const gwResult_t destroyed = gwCommDestroy(comm_);
  if (destroyed != gwSuccess) side_->Tell(ReportKind::kFailed, destroyed, "gwCommDestroy");
  side_->Tell(ReportKind::kTimed, static_cast<int>((NowNs() - begin_ns) / kNsPerMs),
              "gwCommDestroy");
}

void RankProgram::Run() {
  if (trial_.phase == Phase::kInit) side_->Tell(ReportKind::kReady, 0, "");
  gwResult_t result = Start();
  if (result == gwInProgress) return side_->Tell(ReportKind::kVoid, 0, "");
  if (result != gwSuccess) {
    side_->Tell(ReportKind::kError, result, gwGetLastError(nullptr));
    return side_->Tell(ReportKind::kDone, 0, "");
  }
  result = Register();
  if (result == gwSuccess) result = Work(0);
  if (trial_.phase != Phase::kInit) side_->Tell(ReportKind::kReady, 0, "");
  std::thread aborter;
  if (trial_.fault == Fault::kAbort && side_->rank == trial_.victim) {
    aborter = std::thread([this] {
      if (!side_->AwaitGo()) return;
      const int64_t begin_ns = NowNs();
      const gwResult_t aborted = gwCommAbort(comm_);
      if (aborted != gwSuccess) side_->Tell(ReportKind::kFailed, aborted, "gwCommAbort");
      side_->Tell(ReportKind::kTimed, static_cast<int>((NowNs() - begin_ns) / kNsPerMs),
                  "gwCommAbort");
    });
  }
  if (result == gwSuccess) result = WorkUntilError();
  if (result != gwSuccess) side_->Tell(ReportKind::kError, result, gwGetLastError(comm_), call_);
  if (aborter.joinable()) aborter.join();
  Leave();
  side_->Tell(ReportKind::kDone, 0, "");
}

}  // namespace gradwire
