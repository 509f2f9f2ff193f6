#include "runtime/rank/rank_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "runtime/engine/tensor_list.h"
#include "runtime/operations/raw_operation.h"
#include "runtime/operations/tensor_operation.h"
#include "runtime/operations/tensor_traffic.h"
#include "transports/control/message.h"

namespace gradwire {
namespace {

// A vote holds a table and an observation.
constexpr int64_t kMaxTableBytes = kMaxControlBodyBytes / 2;

}  // namespace

RankTensors::RankTensors(const Options& options)
    : options_(options),
      schedules_(options.rank, options.algorithms.world_size),
      controller_({.rank = options.rank,
                   .slice_elems = options.slice.elems,
                   .algorithms = options.algorithms,
                   .clock = options.clock,
                   .job = options.job,
                   .log_path = options.plan_log}) {}

// ---- operations ----

std::shared_ptr<Operation> RankTensors::MakeRaw(RawOp op, const AlgorithmRow& algorithm,
                                                uint16_t turn) {
  op.rank = options_.rank;
  op.world_size = world_size();
  const int64_t slice_elems = options_.slice.ElemsFor(WireBytesPerElem(nullptr, op.dtype));
  auto operation = std::make_shared<RawOperation>(op, slice_elems, &algorithm,
                                                  schedules_.Get(algorithm, op.root));
  operation->name = Name(op.collective);
  operation->turn = turn;
  return operation;
}

int64_t RankTensors::SliceElemsFor(std::span<const SubmittedTensor> group) const {
  int64_t elems = options_.slice.elems;
  // Carriers of codes and of few values take long slices as they are.
  if (SchemeOf(*group[0].tensor) != Scheme::kTwoShot && !AreLossless(group)) return elems;
  for (const SubmittedTensor& submitted : group) {
    const TensorState& tensor = *submitted.tensor;
    const PayloadCodec* payload = tensor.codec.payload.get();
    elems = std::min(elems, options_.slice.ElemsFor(WireBytesPerElem(payload, tensor.dtype)));
  }
  return elems;
}

StatusOr<std::shared_ptr<Operation>> RankTensors::MakeGroup(std::vector<SubmittedTensor> group,
                                                            Scheme scheme, ReduceOp op,
                                                            const StepContext& step) {
  const StatusOr<const AlgorithmRow*> algorithm =
      AlgorithmFor(group, scheme, options_.algorithms, MethodState::kSettled);
  if (!algorithm.ok()) return algorithm.status();
  const TensorCall call = {
      .scheme = scheme,
      .op = op,
      .context = {.rank = options_.rank,
                  .world_size = world_size(),
                  .seed = options_.seed,
                  .clock = options_.clock,
                  .count_nonfinite = options_.nonfinite != NonFinitePolicy::kPropagate,
                  .timeline = options_.timeline},
      .slice_elems = SliceElemsFor(group),
      .algorithm = *algorithm,
      .algorithms = &options_.algorithms,
      .schedules = &schedules_,
      .loss_scale = step.loss_scale,
      .step = step.open ? std::optional(step.number) : std::nullopt,
      .turn = step.turn,
      .transaction = options_.transaction,
      .looks_at_gradients = options_.nonfinite == NonFinitePolicy::kError};
  return MakeTensorOperation(std::move(group), call);
}

StatusOr<Operations> RankTensors::MakeAllReduce(std::span<const SubmittedTensor> tensors,
                                                ReduceOp op, const StepContext& step) {
  Operations operations;
  for (std::vector<SubmittedTensor>& group : SplitGroup(tensors, world_size())) {
    const Scheme scheme = SchemeOf(*group[0].tensor);
    StatusOr<std::shared_ptr<Operation>> made = MakeGroup(std::move(group), scheme, op, step);
    if (!made.ok()) return made.status();
    operations.push_back(std::move(*made));
  }
  for (const SubmittedTensor& submitted : tensors) {
    if (step.open && submitted.tensor->automatic != nullptr)
      controller_.NoteSubmit(submitted.tensor, submitted.send);
  }
  return operations;
}

StatusOr<std::shared_ptr<Operation>> RankTensors::MakeReduceScatter(const SubmittedTensor& tensor,
                                                                    ReduceOp op,
                                                                    const StepContext& step) {
  return MakeGroup({tensor}, Scheme::kReduceScatter, op, step);
}

// ---- the plan ----

void RankTensors::Automate(TensorState* tensor, std::shared_ptr<const AutoSpec> spec,
                           uint16_t turn) {
  tensor->TakeLadder(std::move(spec), world_size());
  tensor->automatic_since = controller_.TurnNumber(turn);
  tensor->ReleaseReplicated();
  tensor->SetCodec(tensor->automatic->ladder[kNoneRung].codec);
  tensor->exemption.clear();
  controller_.Enable();
}

std::vector<RankTensors::CodecChange> RankTensors::PlannedChanges(
    std::span<const SubmittedTensor> tensors, const StepContext& step) const {
  std::vector<CodecChange> changes;
  for (const SubmittedTensor& submitted : tensors) {
    const TensorState& tensor = *submitted.tensor;
    if (tensor.automatic == nullptr) continue;
    const int rung = controller_.RungFor(tensor, step.turn, step.open);
    const Codec& codec = tensor.automatic->ladder[rung].codec;
    if (codec.spec != tensor.codec.spec) changes.push_back({submitted.tensor, &codec});
  }
  return changes;
}

void RankTensors::TakeChanges(std::span<const CodecChange> changes) const {
  for (const CodecChange& change : changes) change.tensor->TakeRung(*change.codec, world_size());
}

std::string RankTensors::Advise(uint16_t turn, std::span<const std::string> observations) {
  return controller_.Advise(turn, observations, table_.All());
}

// ---- turns ----

TurnEnd RankTensors::MakeTurnEnd(const StepContext& step) {
  const uint64_t digest = table_.Digest();
  if (!table_text_ || digest != table_digest_) {
    table_text_ =
        std::make_shared<const std::string>(EncodeTensorList(table_.List(), kMaxTableBytes));
    table_digest_ = digest;
  }
  return {.turn = step.turn,
          .step = step.number,
          .table_digest = digest,
          .table = table_text_,
          .observation = controller_.TakeObservation()};
}

void RankTensors::NoteDone(const Operation& operation) {
  controller_.NoteOperation(operation.turn, operation.submit_ns, operation.complete_ns);
}

void RankTensors::EndTurn(const TurnResult& result) {
  const bool commit = result.outcome == StepOutcome::kCommit;
  table_.EndStep(result.step, commit);
  if (result.begins_anew && world_size() > 1) BeginAnew(result.draws);
  controller_.EndTurn(result.turn, commit, result.order, table_.All());
}

// Without memory for a residual that others have, the tensor's next exact operation is a mismatch,
// and this tells why.
void RankTensors::BeginAnew(uint32_t draws) {
  const Status status = table_.BeginAnew(draws, options_.transaction);
  if (!status.ok()) GW_LOG(kWarn, kStep, "{}", status.ToString());
}

}  // namespace gradwire
