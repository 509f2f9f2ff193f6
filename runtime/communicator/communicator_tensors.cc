// The tensors of a Communicator: registration, submission, state.
#include "runtime/communicator/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/wrapping.h"
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
  return engine_->WithCore([&](EngineCore&) { return tensors_.table().Add(std::move(tensor)); });
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
      tensors_.Automate(tensor, std::make_shared<const AutoSpec>(std::move(*made)), user_turn_);
    });
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
  engine_->WithCore([&](EngineCore&) { tensors_.table().Remove(tensor); });
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
  const std::vector<RankTensors::CodecChange> changes = tensors_.PlannedChanges(tensors, Context());
  if (changes.empty()) return Status();
  // The engine may be about to commit state of the codec before.
  GW_RETURN_IF_ERROR(WaitForTurn(user_turn_, Deadline::Never()));
  engine_->WithCore([&](EngineCore&) { tensors_.TakeChanges(changes); });
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

StatusOr<std::unique_ptr<Request>> Communicator::Submit(std::span<const SubmittedTensor> tensors,
                                                        ReduceOp op) {
  GW_RETURN_IF_ERROR(CheckUsable());
  GW_RETURN_IF_ERROR(CatchUp());
  GW_RETURN_IF_ERROR(CheckSubmit(tensors));
  GW_RETURN_IF_ERROR(FollowPlan(tensors));
  StatusOr<Operations> made = tensors_.MakeAllReduce(tensors, op, Context());
  if (!made.ok()) return made.status();
  return SubmitAll(tensors, std::move(*made));
}

std::unique_ptr<Request> Communicator::SubmitAll(std::span<const SubmittedTensor> tensors,
                                                 Operations operations) {
  auto request = std::make_unique<Request>(Request{std::move(operations)});
  const auto mark = [&](bool under_way) {
    for (const SubmittedTensor& submitted : tensors) {
      submitted.tensor->in_flight.store(under_way, std::memory_order_relaxed);
      submitted.tensor->submitted = under_way && step_open_;
    }
  };
  mark(true);  // first: the engine may be through with them at once
  try {
    engine_->Issue(request->operations, {});
  } catch (...) {  // no memory: the engine has none of them
    mark(false);
    throw;
  }
  step_has_submits_ |= step_open_;
  return request;
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
  StatusOr<std::shared_ptr<Operation>> made = tensors_.MakeReduceScatter(tensor, op, Context());
  if (!made.ok()) return made.status();
  return SubmitAll({&tensor, 1}, {std::move(*made)});
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
  for (const TensorState* tensor : tensors_.table().All()) {
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
    return tensors_.table().SaveTo(to, parts_.rank, parts_.world_size,
                                   tensors_.controller().Save());
  });
}

Status Communicator::LoadState(ConstBytes bytes) {
  GW_RETURN_IF_ERROR(WaitForRest("loaded"));
  return engine_->WithCore([&](EngineCore&) {
    std::string knowledge;
    GW_RETURN_IF_ERROR(tensors_.table().Load(bytes, parts_.rank, parts_.world_size,
                                             parts_.agreed.transaction, &knowledge));
    tensors_.controller().Load(std::move(knowledge));
    return Status();
  });
}

}  // namespace gradwire
