#include "cli/train/rank_trainer.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/measure/comm_calls.h"
#include "cli/train/gradient_times.h"

namespace gradwire {
namespace {

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

int64_t Nanoseconds(double ms) { return static_cast<int64_t>(std::llround(ms * kNsPerMs)); }

}  // namespace

RankTrainer::RankTrainer(const Parts& parts)
    : comm_(parts.comm),
      options_(*parts.options),
      clock_(*parts.clock),
      memory_(*parts.memory),
      progress_(*parts.progress),
      computation_(MakeComputation(options_.compute)) {
  (void)gwCommUserRank(comm_, &rank_);
  SetComputeMs(options_.compute_ms);
}

Status RankTrainer::Prepare(std::span<const int> specs) {
  GW_RETURN_IF_ERROR(Register(specs[0]));
  // Every spec on every tensor, so that the last one is not refused after minutes.
  for (size_t i = specs.size(); i-- > 0;) GW_RETURN_IF_ERROR(UseSpec(specs[i]));
  return Status::Ok();
}

Status RankTrainer::Register(int spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = options_.specs[static_cast<size_t>(spec)].c_str();
  for (const TensorShape& shape : options_.model.tensors) {
    gwTensor_t tensor = nullptr;
    GW_RETURN_IF_ERROR(CheckedResult(
        comm_,
        gwTensorRegister(comm_, shape.name.c_str(), shape.lengths.data(),
                         static_cast<int>(shape.lengths.size()), gwFloat32, &config, &tensor)));
    tensors_.push_back(tensor);
  }
  return Status::Ok();
}

int RankTrainer::AddPlan(std::vector<std::string> specs) {
  plans_.push_back(std::move(specs));
  return static_cast<int>(options_.specs.size() + plans_.size()) - 1;
}

void RankTrainer::SetComputeMs(double ms) {
  compute_ms_ = ms;
  ready_ns_ = GradientTimes(options_.model, Nanoseconds(ms));
}

const std::string& RankTrainer::SpecOf(size_t tensor, int spec) const {
  const auto number = static_cast<size_t>(spec);
  const size_t uniform = options_.specs.size();
  return number < uniform ? options_.specs[number] : plans_[number - uniform][tensor];
}

Status RankTrainer::UseSpec(int spec) {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const char* text = SpecOf(t, spec).c_str();
    GW_RETURN_IF_ERROR(CheckedResult(comm_, gwTensorSetSpec(tensors_[t], text)));
  }
  spec_ = spec;
  return Status::Ok();
}

StatusOr<std::vector<StepTime>> RankTrainer::WarmUp(int spec, int steps) {
  if (spec != spec_) GW_RETURN_IF_ERROR(UseSpec(spec));
  std::vector<StepTime> times;
  for (int i = 0; i < steps; ++i) {
    progress_.Count(i, steps);
    const StatusOr<StepTime> step = RunStep();
    if (!step.ok()) return step.status();
    times.push_back(*step);
  }
  GW_RETURN_IF_ERROR(CombineSteps(&times));
  return times;
}

StatusOr<BlockResult> RankTrainer::RunBlock(const Block& block) {
  if (block.spec != spec_) GW_RETURN_IF_ERROR(UseSpec(block.spec));
  BlockResult result = {.block = block, .first_step = steps_};
  double before = 0;
  for (int i = 0; i < block.steps; ++i) {
    progress_.Count(i, block.steps);
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
                  .compute_ms = Milliseconds(computed_ns - begin_ns),
                  .begin_s = static_cast<double>(begin_ns) / kNsPerSecond};
}

Status RankTrainer::ComputeAndSubmit(std::vector<Request>* requests) {
  computation_->Begin();
  int64_t late_ns = 0;
  for (const LateRank& late : options_.late) late_ns += Nanoseconds(late.MsIn(rank_, steps_));
  computation_->AdvanceTo(late_ns + Nanoseconds(compute_ms_ * kForwardShare),
                          memory_.OfAll(steps_));
  for (size_t t = tensors_.size(); t-- > 0;) {
    computation_->AdvanceTo(late_ns + ready_ns_[t], memory_.Of(t, steps_));
    gwRequest_t request = nullptr;
    GW_RETURN_IF_ERROR(
        CheckedResult(comm_, gwAllReduceTensor(tensors_[t], memory_.gradient(t, steps_),
                                               memory_.sum(t), gwAvg, nullptr, &request)));
    requests->emplace_back(request);
  }
  return Status::Ok();
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
  // By name: the ledger has an order of its own.
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json& row : (*ledger)["tensors"]) rows[row.at("name")] = row;
  double energy = 0, error = 0;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const auto row = rows.find(options_.model.tensors[t].name);
    if (row == rows.end()) {
      return Status(gwInternalError, "the ledger does not have the registered tensors");
    }
    ++result->codecs[row->second.at("spec")];
    energy += memory_.energy(t);
    error += memory_.energy(t) * std::pow(row->second.at("relerr").get<double>(), 2);
  }
  result->relerr = std::sqrt(error / energy);
  return Status::Ok();
}

StatusOr<std::vector<PlanChange>> RankTrainer::PlanChanges() {
  StatusOr<nlohmann::json> ledger = ReadLedger(comm_);
  if (!ledger.ok()) return ledger.status();
  std::vector<PlanChange> changes;
  for (const nlohmann::json& made : (*ledger)["controller"]["decisions"])
    changes.push_back(PlanChangeOf(made));
  return changes;
}

Status RankTrainer::CombineSteps(std::vector<StepTime>* steps) {
  std::vector<double> values;
  for (const StepTime& step : *steps) values.insert(values.end(), {step.step_ms, step.compute_ms});
  GW_RETURN_IF_ERROR(AllReduceValues(comm_, values, gwMax));
  for (size_t i = 0; i < steps->size(); ++i) {
    (*steps)[i].step_ms = values[2 * i];
    (*steps)[i].compute_ms = values[2 * i + 1];
  }
  return Status::Ok();
}

Status RankTrainer::CombineBlock(BlockResult* result) {
  double values[] = {result->wire_bytes, result->relerr};
  GW_RETURN_IF_ERROR(AllReduceValues(comm_, values, gwMax));
  result->wire_bytes = values[0];
  result->relerr = values[1];
  return CombineSteps(&result->steps);
}

}  // namespace gradwire
