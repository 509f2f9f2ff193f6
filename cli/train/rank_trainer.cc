#include "cli/train/rank_trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/measure/comm_calls.h"
#include "cli/train/gradient_noise.h"
#include "cli/train/gradient_times.h"

namespace gradwire {
namespace {

constexpr int64_t kElemBytes = sizeof(float);

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

}  // namespace

RankTrainer::RankTrainer(gwComm_t comm, const TrainOptions& options, const Clock& clock)
    : comm_(comm),
      options_(options),
      clock_(clock),
      computation_(MakeComputation(options.compute)) {
  (void)gwCommUserRank(comm, &rank_);
}

Status RankTrainer::Prepare() {
  GW_RETURN_IF_ERROR(Register());
  // Every spec on every tensor, so that the last one is not refused after minutes.
  for (int spec = static_cast<int>(options_.specs.size()); spec-- > 0;) {
    GW_RETURN_IF_ERROR(UseSpec(spec));
  }
  return MakeGradients();
}

Status RankTrainer::Register() {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = options_.specs[0].c_str();
  const auto compute_ns = static_cast<int64_t>(std::llround(options_.compute_ms * kNsPerMs));
  const std::vector<int64_t> ready_ns = GradientTimes(options_.model, compute_ns);
  for (const TensorShape& shape : options_.model.tensors) {
    Tensor tensor = {
        .offset = memory_elems_, .elems = shape.elems(), .ready_ns = ready_ns[tensors_.size()]};
    GW_RETURN_IF_ERROR(
        CheckedResult(comm_, gwTensorRegister(comm_, shape.name.c_str(), shape.lengths.data(),
                                              static_cast<int>(shape.lengths.size()), gwFloat32,
                                              &config, &tensor.handle)));
    memory_elems_ += AlignUp(tensor.elems * kElemBytes) / kElemBytes;
    tensors_.push_back(tensor);
  }
  return Status::Ok();
}

Status RankTrainer::MakeGradients() {
  const GradientNoise noise(options_.seed, rank_);
  for (AlignedBuffer* buffer : {&gradients_[0], &gradients_[1], &sums_}) {
    GW_RETURN_IF_ERROR(buffer->EnsureBytes(memory_elems_ * kElemBytes));
    std::fill_n(buffer->as<float>(), memory_elems_, 0.0f);
  }
  for (int t = 0; t < std::ssize(tensors_); ++t) {
    Tensor& tensor = tensors_[static_cast<size_t>(t)];
    for (int version = 0; version < std::ssize(gradients_); ++version) {
      float* all = gradients_[static_cast<size_t>(version)].as<float>();
      noise.Fill(t, version, {all + tensor.offset, static_cast<size_t>(tensor.elems)});
    }
    tensor.energy = std::pow(noise.Scale(t), 2) * static_cast<double>(tensor.elems);
  }
  return Status::Ok();
}

Status RankTrainer::UseSpec(int spec) {
  for (const Tensor& tensor : tensors_) {
    const char* text = options_.specs[static_cast<size_t>(spec)].c_str();
    GW_RETURN_IF_ERROR(CheckedResult(comm_, gwTensorSetSpec(tensor.handle, text)));
  }
  spec_ = spec;
  return Status::Ok();
}

Status RankTrainer::WarmUp(int spec) {
  if (options_.warm_ups > 0) GW_RETURN_IF_ERROR(UseSpec(spec));
  for (int i = 0; i < options_.warm_ups; ++i) GW_RETURN_IF_ERROR(RunStep().status());
  return Status::Ok();
}

StatusOr<BlockResult> RankTrainer::RunBlock(const Block& block) {
  if (block.spec != spec_) GW_RETURN_IF_ERROR(UseSpec(block.spec));
  BlockResult result = {.block = block, .first_step = steps_};
  double before = 0;
  for (int i = 0; i < block.steps; ++i) {
    const StatusOr<StepTime> step = RunStep();
    if (!step.ok()) return step.status();
    result.steps.push_back(*step);
    if (i > 0) continue;
    const StatusOr<double> sent = SentBytes();
    if (!sent.ok()) return sent.status();
    before = *sent;
  }
  const StatusOr<double> after = SentBytes();
  if (!after.ok()) return after.status();
  result.wire_bytes = (*after - before) / static_cast<double>(result.counted().size());
  GW_RETURN_IF_ERROR(ReadLedgerInto(&result));
  GW_RETURN_IF_ERROR(CombineBlock(&result));
  return result;
}

StatusOr<StepTime> RankTrainer::RunStep() {
  std::vector<Request> requests;
  requests.reserve(tensors_.size());
  const int64_t begin_ns = clock_.NowNs();
  GW_RETURN_IF_ERROR(CheckedResult(comm_, gwStepBegin(comm_, steps_)));
  GW_RETURN_IF_ERROR(ComputeAndSubmit(&requests));
  const int64_t computed_ns = clock_.NowNs();
  for (const Request& request : requests) {
    GW_RETURN_IF_ERROR(CheckedResult(comm_, gwRequestWait(request.get(), -1)));
  }
  gwStepOutcome_t outcome = gwStepCommitted;
  GW_RETURN_IF_ERROR(CheckedResult(comm_, gwStepEnd(comm_, &outcome)));
  const int64_t end_ns = clock_.NowNs();
  // Nothing here is worth a retry: times of steps with failures would compare with nothing.
  if (outcome != gwStepCommitted) return CheckedResult(comm_, gwAborted);
  ++steps_;
  return StepTime{.step_ms = Milliseconds(end_ns - begin_ns),
                  .compute_ms = Milliseconds(computed_ns - begin_ns)};
}

Status RankTrainer::ComputeAndSubmit(std::vector<Request>* requests) {
  float* gradients = gradients_[steps_ % gradients_.size()].as<float>();
  computation_->Begin();
  const auto forward_ns =
      static_cast<int64_t>(std::llround(options_.compute_ms * kNsPerMs * kForwardShare));
  computation_->AdvanceTo(forward_ns, MemoryOf(0, memory_elems_));
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor) {
    computation_->AdvanceTo(tensor->ready_ns, MemoryOf(tensor->offset, tensor->elems));
    gwRequest_t request = nullptr;
    GW_RETURN_IF_ERROR(CheckedResult(
        comm_, gwAllReduceTensor(tensor->handle, gradients + tensor->offset,
                                 sums_.as<float>() + tensor->offset, gwAvg, nullptr, &request)));
    requests->emplace_back(request);
  }
  return Status::Ok();
}

// A tensor's sum is free until it is submitted.
ComputeMemory RankTrainer::MemoryOf(int64_t offset, int64_t elems) {
  const auto count = static_cast<size_t>(elems);
  const float* gradients = gradients_[steps_ % gradients_.size()].as<float>();
  return {.in = {gradients + offset, count}, .out = {sums_.as<float>() + offset, count}};
}

StatusOr<double> RankTrainer::SentBytes() {
  const StatusOr<nlohmann::json> stats = ReadStats(comm_);
  if (!stats.ok()) return stats.status();
  return stats->value("sent_bytes", 0.0) + stats->value("framing_bytes", 0.0) +
         stats->value("control_bytes", 0.0);
}

Status RankTrainer::ReadLedgerInto(BlockResult* result) {
  const StatusOr<nlohmann::json> ledger = ReadLedger(comm_);
  if (!ledger.ok()) return ledger.status();
  const nlohmann::json rows = ledger->value("tensors", nlohmann::json::array());
  if (rows.size() != tensors_.size()) {
    return Status(gwInternalError, "the ledger does not have the registered tensors");
  }
  double energy = 0, error = 0;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    ++result->codecs[rows[t].value("spec", "")];
    energy += tensors_[t].energy;
    error += tensors_[t].energy * std::pow(rows[t].value("relerr", 0.0), 2);
  }
  result->relerr = std::sqrt(error / energy);
  return Status::Ok();
}

Status RankTrainer::CombineBlock(BlockResult* result) {
  std::vector<double> values = {result->wire_bytes, result->relerr};
  for (const StepTime& step : result->steps) {
    values.insert(values.end(), {step.step_ms, step.compute_ms});
  }
  GW_RETURN_IF_ERROR(AllReduceValues(comm_, values, gwMax));
  result->wire_bytes = values[0];
  result->relerr = values[1];
  for (size_t i = 0; i < result->steps.size(); ++i) {
    result->steps[i] = {.step_ms = values[2 + 2 * i], .compute_ms = values[3 + 2 * i]};
  }
  return Status::Ok();
}

}  // namespace gradwire
