#include "runtime/operations/tensor_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/numeric.h"
#include "collectives/schemes/linear/linear_slice.h"
#include "collectives/schemes/two_shot/two_shot_slice.h"
#include "compress/codecs/none/exact_payload.h"
#include "runtime/operations/slice_bytes.h"
#include "runtime/operations/tensor_traffic.h"

namespace gradwire {

namespace {

const CarrierMethod* ExactMethod() {
  static const Codec none = *MakeCodec("none");
  return none.carrier.get();
}

uint64_t DigestOf(uint64_t tensor_id, ConstBytes state) {
  return Hasher().Add(tensor_id).Add(HashBytes(state)).digest();
}

// A list as votes carry it and errors show it: a long one is cut, and still differs where it
// differed.
constexpr size_t kListBytes = 2048;
std::string ListText(const std::vector<std::string>& items) {
  std::string text = fmt::format("{}", fmt::join(items, ","));
  if (text.size() <= kListBytes) return text;
  return fmt::format("{}... ({} in all, hash {:016x})", text.substr(0, kListBytes), items.size(),
                     HashString(text));
}

// With the scales of its context.
TensorCall Scaled(TensorCall call) {
  PartContext& context = call.context;
  // The unit of residuals: a power of two that has a reciprocal, so that scaling is exact.
  const float unit = std::ldexp(1.0f, std::clamp(std::ilogb(call.loss_scale), -126, 126));
  const float average =
      call.op == ReduceOp::kAvg ? 1.0f / static_cast<float>(context.world_size) : 1.0f;
  context.in_scale = 1.0f / unit;
  context.out_scale = unit * average;
  context.rest_scale = call.loss_scale / unit;
  return call;
}

}  // namespace

TensorOperation::TensorOperation(std::vector<SubmittedTensor> tensors, const TensorCall& call)
    : tensors_(std::move(tensors)),
      call_(Scaled(call)),
      draws_(Draws()),
      exact_(AreLossless(tensors_)),
      rider_(RiderFor(tensors_, call.context.world_size)) {
  name = NameOfOperation(call.scheme);
  tensor = tensors_[0].tensor->name;
  turn = call.turn;
  in_step = call.step.has_value();
  const bool encoded = SendsPayloads(call.scheme);
  course = {.algorithm = call.algorithm,
            .is_filled = !encoded && call.context.world_size > 1 && !exact_};
  dtype = tensors_[0].tensor->dtype;
  labels_.reserve(tensors_.size());
  for (const SubmittedTensor& submitted : tensors_) {
    labels_.push_back(submitted.tensor->Label());
    bytes += submitted.tensor->elems * SizeOf(*dtype);
    if ((submitted.dither_step & kOutsideStep) != 0)
      draws_end = std::max(draws_end, (submitted.dither_step & ~kOutsideStep) + 1);
  }
}

std::string TensorOperation::StepText() const {
  return call_.step ? std::to_string(*call_.step) : "none";
}

// Where all ranks draw the same elements or columns, one draw apart is another sum.
std::vector<uint32_t> TensorOperation::Draws() const {
  std::vector<uint32_t> draws;
  for (const SubmittedTensor& submitted : tensors_) {
    const CarrierMethod* method = submitted.tensor->codec.carrier.get();
    if (method != nullptr && method->unit() == CarrierUnit::kTensor)
      draws.push_back(submitted.dither_step);
  }
  return draws;
}

// The fields of the text as numbers.
uint64_t TensorOperation::Signature() const {
  Hasher hasher;
  hasher.Add(call_.scheme)
      .Add(*dtype)
      .Add(call_.op)
      .Add(std::bit_cast<uint32_t>(call_.loss_scale))
      .Add(StepText())
      .Add(call_.algorithm->name)
      .Add(labels_.size());
  for (const auto& label : labels_) hasher.Add(label->digest);
  for (const uint32_t draw : draws_) hasher.Add(draw);
  return hasher.digest();
}

OpText TensorOperation::Text() const {
  std::vector<std::string> names, specs, counts, shapes, draws;
  for (const auto& label : labels_) {
    if (!label->shape.empty()) shapes.push_back(label->shape);
    names.push_back(label->name);
    specs.push_back(label->spec);
    counts.push_back(std::to_string(label->elems));
  }
  OpText text = {{"operation", std::string(NameOfOperation(call_.scheme))},
                 {"tensors", ListText(names)},
                 {"count", ListText(counts)},
                 {"datatype", std::string(Name(*dtype))},
                 {"op", std::string(Name(call_.op))},
                 {"spec", ListText(specs)},
                 {"loss scale", fmt::format("{}", call_.loss_scale)},
                 {"step", StepText()},
                 {"scheme", std::string(Name(call_.scheme))},
                 {"algorithm", call_.algorithm->name}};
  if (!shapes.empty()) text.emplace_back("shape", ListText(shapes));
  for (const uint32_t draw : draws_) draws.push_back(std::to_string(draw));
  if (!draws.empty()) text.emplace_back("draw", ListText(draws));
  // An exact sum sends residuals along, in carriers of their own type: a rank without one (it
  // loaded another state) must not take them for gradients. What codecs make is the same either
  // way.
  if (exact_) {
    text.emplace_back("residual", KnownResidual() ? "kept" : "none");
  }
  if (replicated_) {
    text.emplace_back("replicated state", fmt::format("{:016x}", *replicated_));
  }
  return text;
}

// Looks at the tensors only while they are certain to be there.
bool TensorOperation::KnownResidual() const {
  return has_residual_ ? *has_residual_ : HasResidual();
}

bool TensorOperation::HasResidual() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const SubmittedTensor& submitted) {
    return submitted.tensor->residual.allocated();
  });
}

// Nobody else may write it while the operation is under way.
Status TensorOperation::PrepareReplicated() {
  const int world_size = call_.context.world_size;
  if (world_size == 1) return Status();
  Hasher hasher;
  for (const SubmittedTensor& submitted : tensors_) {
    TensorState& tensor = *submitted.tensor;
    const int64_t bytes = ReplicatedBytes(tensor, world_size);
    if (bytes == 0) continue;
    if (!tensor.replicated.allocated()) {
      GW_RETURN_IF_ERROR(tensor.replicated.Allocate(bytes, kReplicatedSlots));
    }
    replicated_ = hasher.Add(DigestOf(tensor.id, tensor.replicated.live())).digest();
  }
  // Ranks whose states differ must not sum what they make of them.
  if (replicated_) signature = Hasher().Add(signature).Add(*replicated_).digest();
  return Status();
}

// The state tells of this step alone what it sends: as much as the gradient, where the method has
// not started yet. All ranks have the same, as the signature has it.
Status TensorOperation::PrepareSchedule() {
  if (replicated_) {
    const StatusOr<const AlgorithmRow*> algorithm =
        AlgorithmFor(tensors_, call_.scheme, *call_.algorithms, MethodState::kLive);
    if (!algorithm.ok()) return algorithm.status();
    course.algorithm = *algorithm;
  }
  schedule_ = call_.schedules->Get(*course.algorithm, 0);
  return Status();
}

Status TensorOperation::Prepare() {
  for (const SubmittedTensor& submitted : tensors_) {
    TensorState& tensor = *submitted.tensor;
    if (tensor.feedback() && !tensor.residual.allocated() && call_.context.world_size > 1) {
      GW_RETURN_IF_ERROR(tensor.residual.Allocate(tensor.elems, call_.transaction));
      tensor.fresh = true;
    }
    if (tensor.keeps_local() && !tensor.local.allocated() && call_.context.world_size > 1) {
      GW_RETURN_IF_ERROR(tensor.local.Allocate(tensor.elems, call_.transaction));
    }
  }
  GW_RETURN_IF_ERROR(PrepareReplicated());
  GW_RETURN_IF_ERROR(PrepareSchedule());
  of_tensors_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TensorPart& part = parts_.emplace_back(PartOf(tensors_[i]));
    if (!part.rides) part.stats = &of_tensors_[i];
  }
  // One carrier for the group: its type must not differ between the tensors.
  has_residual_ = HasResidual();
  for (TensorPart& part : parts_) part.has_residual = *has_residual_;
  // Not known at submission: the vote on the step before may have flushed it.
  if (exact_ && *has_residual_) {
    signature = Hasher().Add(signature).Add(*has_residual_).digest();
  }
  flat_ = AsFlat();
  slices_ = call_.scheme == Scheme::kReduceScatter
                ? CutShardsIntoSlices(parts_[0], call_.context.world_size, call_.slice_elems)
                : CutIntoSlices(parts_, call_.slice_elems);
  if (slices_.empty())
    slices_.emplace_back();  // no elements: still runs once and checks signatures
  return Status();
}

std::optional<RawOp> TensorOperation::AsFlat() const {
  if (!exact_ || call_.scheme == Scheme::kReduceScatter) return std::nullopt;
  const std::byte* send = tensors_[0].send;
  std::byte* recv = tensors_[0].recv;
  int64_t elems = 0;
  for (const SubmittedTensor& submitted : tensors_) {
    const int64_t bytes = elems * SizeOf(submitted.tensor->dtype);
    if (submitted.tensor->residual.allocated() || submitted.send != send + bytes ||
        submitted.recv != recv + bytes)
      return std::nullopt;
    elems += submitted.tensor->elems;
  }
  return RawOp{.collective = Collective::kAllReduce,
               .send = send,
               .recv = recv,
               .count = elems,
               .dtype = tensors_[0].tensor->dtype,
               .op = call_.op,
               .rank = call_.context.rank,
               .world_size = call_.context.world_size,
               .count_nonfinite = call_.context.count_nonfinite};
}

int64_t TensorOperation::slices() const { return static_cast<int64_t>(slices_.size()); }

SliceTraits TensorOperation::Traits() const {
  int64_t elems = 0;
  for (const Piece& piece : slices_[0]) elems += piece.elems;
  SliceTraits traits = {.fill = FillOf(elems, call_.slice_elems)};
  if (std::any_of(parts_.begin(), parts_.end(), IsWhole)) return traits;
  traits.kind = Hasher()
                    .Add(course.algorithm->name)
                    .Add(call_.scheme)
                    .Add(call_.slice_elems)
                    .Add(*dtype)
                    .Add(labels_[0]->spec)
                    .digest();
  return traits;
}

TensorPart TensorOperation::PartOf(const SubmittedTensor& submitted) const {
  TensorState& tensor = *submitted.tensor;
  TensorPart part = {.grad = {submitted.send, tensor.elems, tensor.dtype},
                     .out = {submitted.recv, tensor.elems, tensor.dtype},
                     .shape = tensor.shape,
                     .tensor_id = tensor.id,
                     .dither_step = submitted.dither_step,
                     .has_residual = tensor.residual.allocated()};
  const int world_size = call_.context.world_size;
  if (SendsPayloads(call_.scheme)) {
    part.codec = PayloadOf(tensor);
    part.in_gradient_units = TravelsAsItCame(tensor);
    if (call_.scheme == Scheme::kReduceScatter) part.out.elems /= world_size;
  } else {
    part.rides = Rides(tensor);
    part.method = (part.rides ? rider_ : tensor.codec.carrier).get();
    part.quantum_elems = part.method->QuantumElems(MetaOf(tensor), world_size);
    part.replicated_in = tensor.replicated.live();
    part.replicated_out = tensor.replicated.next();
  }
  if (world_size == 1) {  // the output is the input, nothing is kept back
    if (part.method != nullptr) part.method = ExactMethod();
    return part;
  }
  if (tensor.residual.allocated()) part.e_in = tensor.residual.live();
  if (tensor.feedback())
    part.e_out = StagesForVote() ? tensor.residual.next() : tensor.residual.LiveInPlace();
  if (tensor.local.allocated()) {
    part.local_in = tensor.local.live();
    part.local_out = StagesForVote() ? tensor.local.next() : tensor.local.LiveInPlace();
  }
  return part;
}

// Exact ones are of the gradients' type where nothing is added to these.
const PayloadCodec* TensorOperation::PayloadOf(const TensorState& tensor) const {
  if (!exact_) return tensor.codec.payload.get();
  return ExactPayload(HasResidual() ? DType::kFloat32 : tensor.dtype);
}

// In the units of its gradients. The loss scale is the unit of residuals alone: exact sums without
// them go unscaled, and what it lifts into a narrow range stays there. The latter does not depend
// on whether there is a residual of an earlier codec, which a rank may have without the others.
bool TensorOperation::TravelsAsItCame(const TensorState& tensor) const {
  if (exact_) return !HasResidual();
  return tensor.codec.payload->traits().narrow_range && !tensor.feedback();
}

StatusOr<std::unique_ptr<SliceOp>> TensorOperation::MakeSlice(int64_t index) {
  const std::vector<Piece>& slice = slices_[index];
  if (call_.looks_at_gradients) LookAtGradients(slice);
  if (flat_) {
    int64_t elems = 0;
    for (const Piece& piece : slice) elems += piece.elems;
    return std::unique_ptr<SliceOp>(std::make_unique<RawSlice>(
        *flat_, std::exchange(flat_done_, flat_done_ + elems), elems, schedule_));
  }
  if (SendsPayloads(call_.scheme)) {
    return std::unique_ptr<SliceOp>(
        std::make_unique<TwoShotSlice>(parts_, call_.context, slice, schedule_));
  }
  return std::unique_ptr<SliceOp>(std::make_unique<LinearSlice>(
      parts_, call_.context, slice, schedule_, SliceBytes(call_.slice_elems)));
}

bool TensorOperation::Rides(const TensorState& tensor) const {
  return rider_ != nullptr && IsLossless(tensor);
}

// All of the slice at once, which may be a whole tensor: under nonfinite=error only.
void TensorOperation::LookAtGradients(std::span<const Piece> slice) {
  for (const Piece& piece : slice) {
    const TensorPart& part = parts_[piece.part];
    if (nonfinite_gradient || CountNonFinite(part.grad.Sub(piece.first, piece.elems)) == 0)
      continue;
    nonfinite_gradient = true;
    nonfinite_tensor = labels_[piece.part]->name;
  }
}

// The first whose result it is in. Few steps come to that: it may take another pass over them.
void TensorOperation::NameNonFinite() {
  for (size_t i = 0; i < parts_.size() && nonfinite_tensor.empty(); ++i) {
    if (CountNonFinite(parts_[i].out) > 0) nonfinite_tensor = labels_[i]->name;
  }
}

void TensorOperation::OnComplete() {
  if (call_.context.count_nonfinite && stats.nonfinite > 0) NameNonFinite();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const SubmittedTensor& submitted = tensors_[i];
    TensorState& tensor = *submitted.tensor;
    Charge(of_tensors_[i], &tensor);
    // Also where nothing is kept, or kept in place: of one rank, or without transactions.
    tensor.took_part = in_step;
    SettleResidual(submitted);
    SettleReplicated(&tensor);
    if (!in_step) {  // no vote is asked
      tensor.fresh = false;
      ++tensor.free_ops;
    }
    tensor.in_flight.store(false, std::memory_order_release);
  }
}

void TensorOperation::Charge(const SliceStats& own, TensorState* tensor) const {
  ++tensor->ops;
  tensor->payload_bytes += own.payload_bytes;
  tensor->encode_ns += own.encode_ns;
  tensor->decode_ns += own.decode_ns;
  tensor->last_relerr = own.sum_p2 > 0 ? std::sqrt(own.sum_err2 / own.sum_p2) : 0.0;
  if (!in_step) return;
  tensor->tally.codec_ns += own.encode_ns + own.decode_ns;
  tensor->tally.energy += own.sum_p2;
  tensor->tally.error += own.sum_err2;
  tensor->tally.sum_energy += own.owned_p2;
}

// What was kept back is staged for the vote, or outside a step live at once.
void TensorOperation::SettleResidual(const SubmittedTensor& submitted) {
  if (call_.context.world_size == 1) return;
  TensorState& tensor = *submitted.tensor;
  tensor.staged = StagesForVote();
  if (!tensor.residual.allocated() || tensor.feedback()) return;
  // By the codec of this operation. Of a scattered sum each rank has another part, and they must
  // agree on whether the tensor has a residual: there all of it is taken to be sent.
  const bool shared = call_.scheme != Scheme::kReduceScatter;
  const ConstView out = {submitted.recv, shared ? tensor.elems : 0, tensor.dtype};
  const bool stays = tensor.residual.KeepUnsent(out, StagesForVote());
  if (stays) return;
  tensor.travelled = in_step;
  if (in_step) return;
  // No vote follows. As zeros it would go along with all sums to come.
  tensor.residual.Release();
  tensor.sent_free = true;
}

void TensorOperation::SettleReplicated(TensorState* tensor) {
  // What another codec has kept stays as it is.
  if (!replicated_ || ReplicatedBytes(*tensor, call_.context.world_size) == 0) return;
  if (in_step) {
    tensor->replicated_staged = true;
    replicated_digest += DigestOf(tensor->id, tensor->replicated.next());
  } else {
    tensor->replicated.Commit();
  }
}

void TensorOperation::OnFailed() {
  for (const SubmittedTensor& submitted : tensors_) {
    submitted.tensor->in_flight.store(false, std::memory_order_release);
  }
}

std::shared_ptr<Operation> MakeTensorOperation(std::vector<SubmittedTensor> tensors,
                                               const TensorCall& call) {
  for (SubmittedTensor& submitted : tensors)
    submitted.dither_step = DitherStepOf(*submitted.tensor, call.step);
  return std::make_shared<TensorOperation>(std::move(tensors), call);
}

}  // namespace gradwire
