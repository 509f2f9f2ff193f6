// The tensors of a Communicator: registration, submission, state.
#include "runtime/communicator/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/wrapping.h"
#include "runtime/operations/tensor_operation.h"
#include "runtime/operations/tensor_traffic.h"
#include "runtime/spec/auto_spec.h"
#include "runtime/spec/spec_error.h"

namespace gradwire {

const Operation* Request::waiting() const {
  const auto first = std::ranges::find_if(
      operations, [](const auto& op) { return !op->done.load(std::memory_order_acquire); });
  return first != operations.end() ? first->get() : nullptr;
}

Status Request::status() const {
  for (const auto& op : operations) GW_RETURN_IF_ERROR(op->status);
  return Status();
}

namespace {

// In an operation under way, or in one of the open step: of others LeaveStep forgets it.
bool IsInUse(const TensorState& tensor) {
  return tensor.submitted || tensor.in_flight.load(std::memory_order_acquire);
}

}  // namespace

StatusOr<TensorState*> Communicator::Register(const std::string& name,
                                              std::span<const int64_t> shape, DType dtype,
                                              const std::string& spec) {
  const std::string& given = spec.empty() ? parts_.agreed.spec : spec;
  // What the caller can mend, before what may have become of the others.
  GW_RETURN_IF_ERROR(WithAutoAmongCodecs(CheckSpec(given), given));
  auto tensor = std::make_unique<TensorState>();
  tensor->name = name;
  tensor->shape.assign(shape.begin(), shape.end());
  tensor->dtype = dtype;
  tensor->elems = 1;
  for (int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(tensor->elems, length, &tensor->elems)) {
      return Status(gwInvalidArgument,
                    {.message = "a length of the shape is negative, or their product overflows",
                     .tensor = name});
    }
  }
  if (tensor->elems > kDitherMaxElems) {
    return Status(gwInvalidArgument,
                  {.message = fmt::format("a tensor holds at most {} elements", kDitherMaxElems),
                   .tensor = name,
                   .hint = "Register it in parts"});
  }
  GW_RETURN_IF_ERROR(SetSpec(tensor.get(), given));
  return engine_->WithCore([&](EngineCore&) { return tensors_.Add(std::move(tensor)); });
}

Status Communicator::SetSpec(TensorState* tensor, const std::string& spec) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (IsInUse(*tensor)) {
    return Status(
        gwInvalidUsage,
        fmt::format("the codec of tensor '{}' cannot change while it is in use", tensor->name),
        "Change it between steps");
  }
  if (IsAutoSpec(spec)) {
    StatusOr<AutoSpec> made = MakeAutoSpec(spec);
    if (!made.ok()) return Status(made.status()).WithTensor(tensor->name);
    // What is known of it stays.
    if (tensor->automatic != nullptr && tensor->automatic->spec == made->spec) return Status();
    engine_->WithCore([&](EngineCore&) {
      tensor->TakeLadder(std::make_shared<const AutoSpec>(std::move(*made)), parts_.world_size);
      tensor->automatic_since = controller_.TurnNumber(user_turn_);
      tensor->ReleaseReplicated();
      tensor->SetCodec(none_);
      tensor->exemption.clear();
    });
    controller_.Enable();
    return Status();
  }
  StatusOr<Codec> codec = MakeCodec(spec);
  if (!codec.ok()) return WithAutoAmongCodecs(codec.status(), spec);
  std::string exemption = ExemptionFrom(*codec, *tensor);
  if (!exemption.empty()) exemption = fmt::format("exempt from {}: {}", codec->spec, exemption);
  if (exemption.empty()) {
    GW_RETURN_IF_ERROR(codec->Check(MetaOf(*tensor), parts_.world_size).WithTensor(tensor->name));
  }
  // The engine may be about to commit state of the codec before.
  engine_->WithCore([&](EngineCore&) {
    tensor->automatic.reset();
    tensor->SetCodec(exemption.empty() ? *codec : none_);
    tensor->exemption = std::move(exemption);
  });
  return Status();
}

Status Communicator::Deregister(TensorState* tensor) {
  if (IsInUse(*tensor)) {
    return Status(gwInvalidUsage, fmt::format("tensor '{}' is in use", tensor->name),
                  "Deregister it between steps");
  }
  // What ends this wait early is the end of the communicator, in which nothing needs the tensor.
  if (!is_fatal_.load()) (void)WaitForTurn(user_turn_, Deadline::Never());
  engine_->WithCore([&](EngineCore&) { tensors_.Remove(tensor); });
  return Status();
}

Status Communicator::DiscardStep(TensorState* tensor) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (!tensor->submitted || tensor->in_flight.load(std::memory_order_acquire)) {
    return Status(
        gwInvalidUsage,
        fmt::format("tensor '{}' has no complete operation in an open step", tensor->name),
        "Call it between the wait for the tensor's request and gwStepEnd");
  }
  engine_->WithCore([&](EngineCore&) { tensor->ForgetStaged(); });
  return Status();
}

// Tensors of spec `auto` take the codecs that the plan of this turn gives them.
Status Communicator::FollowPlan(std::span<const SubmittedTensor> tensors) {
  bool waited = false;
  for (const SubmittedTensor& submitted : tensors) {
    TensorState& tensor = *submitted.tensor;
    if (tensor.automatic == nullptr) continue;
    const int rung = controller_.RungFor(tensor, user_turn_, step_open_);
    const Codec& codec = tensor.automatic->ladder[rung].codec;
    if (codec.spec == tensor.codec.spec) continue;
    // The engine may be about to commit state of the codec before.
    if (!std::exchange(waited, true))
      GW_RETURN_IF_ERROR(WaitForTurn(user_turn_, Deadline::Never()));
    engine_->WithCore([&](EngineCore&) { tensor.TakeRung(codec, parts_.world_size); });
  }
  return Status();
}

Status Communicator::CheckSubmit(std::span<const SubmittedTensor> tensors) {
  ++submit_count_;
  for (const SubmittedTensor& submitted : tensors) {
    TensorState& tensor = *submitted.tensor;
    const bool twice = std::exchange(tensor.last_submit, submit_count_) == submit_count_;
    if (IsInUse(tensor) || twice) {
      return Status(
          gwInvalidUsage,
          {.message = "the tensor takes part in one operation a step, and has been submitted",
           .tensor = tensor.name,
           .hint = "Accumulate gradients before submitting, or register a second name"});
    }
  }
  return Status();
}

int64_t Communicator::SliceElemsFor(std::span<const SubmittedTensor> tensors) const {
  const SliceSize& slice = parts_.agreed.slice;
  int64_t elems = slice.elems;
  // Carriers of codes and of few values take long slices as they are.
  if (SchemeOf(*tensors[0].tensor) != Scheme::kTwoShot && !AreLossless(tensors)) return elems;
  for (const SubmittedTensor& submitted : tensors) {
    const TensorState& tensor = *submitted.tensor;
    const PayloadCodec* payload = tensor.codec.payload.get();
    elems = std::min(elems, slice.ElemsFor(WireBytesPerElem(payload, tensor.dtype)));
  }
  return elems;
}

StatusOr<std::shared_ptr<Operation>> Communicator::MakeOperation(
    std::vector<SubmittedTensor> tensors, ReduceOp op, Scheme scheme) {
  const StatusOr<const AlgorithmRow*> algorithm =
      AlgorithmFor(tensors, scheme, algorithms_, MethodState::kSettled);
  if (!algorithm.ok()) return algorithm.status();
  const TensorCall call = {
      .scheme = scheme,
      .op = op,
      .context = {.rank = parts_.rank,
                  .world_size = parts_.world_size,
                  .seed = parts_.agreed.seed,
                  .clock = clock_,
                  .count_nonfinite = parts_.agreed.nonfinite != NonFinitePolicy::kPropagate,
                  .timeline = timeline_.get()},
      .slice_elems = SliceElemsFor(tensors),
      .algorithm = *algorithm,
      .algorithms = &algorithms_,
      .schedules = &schedules_,
      .loss_scale = loss_scale_,
      .step = step_open_ ? std::optional(step_) : std::nullopt,
      .turn = user_turn_,
      .transaction = parts_.agreed.transaction,
      .looks_at_gradients = parts_.agreed.nonfinite == NonFinitePolicy::kError};
  return MakeTensorOperation(std::move(tensors), call);
}

StatusOr<std::unique_ptr<Request>> Communicator::Submit(std::span<const SubmittedTensor> tensors,
                                                        ReduceOp op) {
  GW_RETURN_IF_ERROR(CheckUsable());
  GW_RETURN_IF_ERROR(CatchUp());
  GW_RETURN_IF_ERROR(CheckSubmit(tensors));
  GW_RETURN_IF_ERROR(FollowPlan(tensors));
  auto request = std::make_unique<Request>();
  for (std::vector<SubmittedTensor>& group : SplitGroup(tensors, parts_.world_size)) {
    const Scheme scheme = SchemeOf(*group[0].tensor);
    StatusOr<std::shared_ptr<Operation>> made = MakeOperation(std::move(group), op, scheme);
    if (!made.ok()) return made.status();
    request->operations.push_back(std::move(*made));
  }
  for (const SubmittedTensor& submitted : tensors) {
    if (step_open_ && submitted.tensor->automatic != nullptr)
      controller_.NoteSubmit(submitted.tensor, submitted.send);
  }
  SubmitAll(tensors, request->operations);
  return request;
}

void Communicator::SubmitAll(std::span<const SubmittedTensor> tensors,
                             const std::vector<std::shared_ptr<Operation>>& operations) {
  const auto mark = [&](bool under_way) {
    for (const SubmittedTensor& submitted : tensors) {
      submitted.tensor->in_flight.store(under_way, std::memory_order_relaxed);
      submitted.tensor->submitted = under_way && step_open_;
    }
  };
  mark(true);  // first: the engine may be through with them at once
  try {
    engine_->Issue(operations, {});
  } catch (...) {  // no memory: the engine has none of them
    mark(false);
    throw;
  }
  step_has_submits_ |= step_open_;
}

Status Communicator::CheckReduceScatter(const TensorState& tensor) const {
  if (tensor.elems % parts_.world_size != 0) {
    return Status(gwInvalidArgument,
                  {.message = fmt::format("{} elements are no multiple of the {} ranks",
                                          tensor.elems, parts_.world_size),
                   .tensor = tensor.name,
                   .hint = "Register it with zeros at its end"});
  }
  if (tensor.automatic == nullptr && TakesReduceScatter(tensor)) return Status();
  const std::string spec = tensor.automatic != nullptr ? "auto" : tensor.codec.spec;
  return Status(gwInvalidUsage,
                {.message = fmt::format("'{}' is for all-reduce, not for reduce-scatter", spec),
                 .tensor = tensor.name,
                 .hint = "Take none or what is reduced as two_shot in the table of `gradwire "
                         "codecs`: bf16, fp16, qsgd, efsign"});
}

StatusOr<std::unique_ptr<Request>> Communicator::SubmitReduceScatter(const SubmittedTensor& tensor,
                                                                     ReduceOp op) {
  GW_RETURN_IF_ERROR(CheckUsable());
  GW_RETURN_IF_ERROR(CatchUp());
  GW_RETURN_IF_ERROR(CheckSubmit({&tensor, 1}));
  GW_RETURN_IF_ERROR(CheckReduceScatter(*tensor.tensor));
  StatusOr<std::shared_ptr<Operation>> made = MakeOperation({tensor}, op, Scheme::kReduceScatter);
  if (!made.ok()) return made.status();
  auto request = std::make_unique<Request>();
  request->operations.push_back(std::move(*made));
  SubmitAll({&tensor, 1}, request->operations);
  return request;
}

Status Communicator::Wait(Request* request, int64_t timeout_ns) {
  const Deadline deadline =
      timeout_ns < 0 ? Deadline::Never() : Deadline::After(*clock_, timeout_ns);
  (void)HelpUntil([&](const EngineCore&) { return request->done(); }, deadline);
  if (const Operation* waiting = request->waiting()) {
    return Status(gwTimeout, {.message = fmt::format("the request is not complete after {} ms",
                                                     timeout_ns / 1'000'000),
                              .op = waiting->name,
                              .tensor = waiting->tensor,
                              .hint = "The request stays valid: wait again"});
  }
  Status status = request->status();
  if (!status.ok()) FollowTurn(request->operations[0]->turn);
  return status;
}

// The next call that needs the turn follows it: the latest of those that were told of.
Status Communicator::Look(const Request& request) {
  Status status = request.status();
  if (status.ok() || step_open_) return status;
  const uint16_t turn = request.operations[0]->turn;
  if (!failed_turn_ || TurnsAhead(turn, *failed_turn_) > 0) failed_turn_ = turn;
  return status;
}

// ---- their state ----

// Waits for a vote under way, but not for operations outside steps: they may have no end.
Status Communicator::WaitForRest(const char* done) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (step_open_) {
    return Status(gwInvalidUsage, fmt::format("state is {} between steps", done),
                  "Call gwStepEnd first");
  }
  GW_RETURN_IF_ERROR(WaitForTurn(user_turn_, Deadline::Never()));
  for (const TensorState* tensor : tensors_.All()) {
    if (!tensor->in_flight.load(std::memory_order_acquire)) continue;
    return Status(gwInvalidUsage,
                  {.message = fmt::format("state is {} while nothing is under way", done),
                   .tensor = tensor->name,
                   .hint = "Wait for the request of this tensor first"});
  }
  return Status();
}

StatusOr<int64_t> Communicator::SaveState(Bytes to) {
  GW_RETURN_IF_ERROR(WaitForRest("saved"));
  return engine_->WithCore([&](EngineCore&) {
    return tensors_.SaveTo(to, parts_.rank, parts_.world_size, controller_.Save());
  });
}

Status Communicator::LoadState(ConstBytes bytes) {
  GW_RETURN_IF_ERROR(WaitForRest("loaded"));
  return engine_->WithCore([&](EngineCore&) {
    std::string knowledge;
    GW_RETURN_IF_ERROR(tensors_.Load(bytes, parts_.rank, parts_.world_size,
                                     parts_.agreed.transaction, &knowledge));
    controller_.Load(std::move(knowledge));
    return Status();
  });
}

}  // namespace gradwire
