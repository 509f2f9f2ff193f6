#include "runtime/controller/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/wrapping.h"
#include "runtime/controller/candidate_report.h"
#include "runtime/controller/controlled.h"
#include "runtime/controller/knowledge.h"
#include "runtime/json_text.h"

namespace gradwire {
namespace {

// What tensors measured is told less often than how long the step took, but for the first steps:
// each of the warm-up's few is needed.
constexpr int64_t kTensorsEverySteps = 5;
constexpr int64_t kFirstCommits = 20;
// A turn asks for the order in effect; the ones after it may have come already.
constexpr size_t kKeptOrders = 4;
// While the warm-up lasts every step has a probe.
constexpr int64_t kWarmUpSteps = 60;
constexpr const char* kBlindNote =
    "no step has been committed: compute cannot be measured, and outside steps automatic tensors "
    "are bf16";

std::string Joined(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : "; ") + other;
}

float Us(int64_t ns) { return static_cast<float>(static_cast<double>(ns) / kNsPerUs); }

}  // namespace

Controller::Controller(const Options& options) : options_(options), prober_(options.clock) {}

// ---- the caller's thread ----

void Controller::BeginStep(uint64_t step, uint16_t turn) {
  if (!enabled()) return;
  const int64_t now_ns = options_.clock->NowNs();
  std::lock_guard lock(mu_);
  previous_ = std::exchange(open_, std::nullopt);
  if (previous_) {
    const int64_t inside_ns = previous_->end_ns - previous_->begin_ns;
    const int64_t gap_ns = now_ns - previous_->end_ns;
    const int64_t counted_ns = gaps_.OfStep(gap_ns, inside_ns);
    previous_->observation.step_us = Us(inside_ns + counted_ns);
    if (counted_ns == gap_ns) previous_->observation.blocked_us += previous_->blocked_after_us;
  }
  probe_schedule_.BeginStep(turn);
  open_ = Measured{.observation = {.step = step, .turn = turn}, .begin_ns = now_ns};
}

void Controller::EndStep() {
  if (!enabled()) return;
  std::lock_guard lock(mu_);
  if (open_) open_->end_ns = options_.clock->NowNs();
}

void Controller::NoteBlocked(int64_t waited_ns) {
  if (!enabled()) return;
  std::lock_guard lock(mu_);
  if (!open_) return;
  (open_->end_ns == 0 ? open_->observation.blocked_us : open_->blocked_after_us) += Us(waited_ns);
}

int64_t Controller::TurnNumber(uint16_t turn) const {
  std::lock_guard lock(mu_);
  return Number(turn);
}

int64_t Controller::Number(uint16_t turn) const {
  return turns_ + TurnsAhead(turn, static_cast<uint16_t>(turns_));
}

int Controller::RungFor(const TensorState& tensor, uint16_t turn, bool in_step) const {
  int rung = kBf16Rung;  // hardly ever does harm
  if (!in_step) {
    TellBlind();  // nothing can be measured
  } else {
    std::lock_guard lock(mu_);
    for (const Order& order : orders_) {
      // One made before the tensor had this ladder names a rung of another.
      const bool knows_ladder = order.from_turn >= tensor.automatic_since + kTurnsToOrder;
      if (knows_ladder && Number(turn) >= order.from_turn)
        rung = RungAt(order.plan, tensor.id, turn);
    }
  }
  return tensor.CanUse(rung) ? rung : kNoneRung;
}

// Once, and not a training that sums something besides its steps.
void Controller::TellBlind() const {
  if (is_blind_told_.load(std::memory_order_relaxed)) return;
  {
    std::lock_guard lock(mu_);
    if (is_blind_told_.exchange(true, std::memory_order_relaxed) || commits_ > 0) return;
  }
  GW_LOG(kInfo, kPlan, "{}", kBlindNote);
}

// Whether plans are compared. A probe makes a step longer, and where probes come by turns as the
// plans do they would always do it to the same plan.
bool Controller::Compares(uint16_t turn) const {
  const auto in_effect = std::find_if(orders_.rbegin(), orders_.rend(), [&](const Order& order) {
    return Number(turn) >= order.from_turn;
  });
  if (in_effect == orders_.rend()) return false;
  const std::vector<PlanEntry>& entries = in_effect->plan.entries;
  return std::any_of(entries.begin(), entries.end(),
                     [](const PlanEntry& entry) { return entry.a != entry.b; });
}

std::optional<ProbeTicket> Controller::TakeTicket(const TensorState& tensor, int64_t now_ns) {
  const bool warms_up = commits_ - job_since_commit_ < kWarmUpSteps;
  const std::optional<ProbeTicket> ticket =
      probe_schedule_.Offer(tensor, warms_up ? ProbePace::kEveryStep : ProbePace::kSeldom, now_ns);
  if (!ticket || Compares(open_->observation.turn)) return std::nullopt;
  probe_schedule_.Take();
  return ticket;
}

void Controller::NoteSubmit(TensorState* tensor, const std::byte* grad) {
  std::optional<ProbeTicket> ticket;
  {
    std::lock_guard lock(mu_);
    if (!open_) return;
    const int64_t now_ns = options_.clock->NowNs();
    tensor->tally.ready_us = Us(now_ns - open_->begin_ns);
    if (options_.rank == 0) ticket = TakeTicket(*tensor, now_ns);
  }
  if (!ticket) return;
  // It takes a while: without the lock.
  std::optional<TriedCodec> tried = Probe(*tensor, *ticket, grad);
  std::lock_guard lock(mu_);
  if (tried) probes_.push_back(std::move(*tried));
  probe_schedule_.Done(*ticket, options_.clock->NowNs());
}

// Another piece in every round. Nothing of a codec that refuses it: that stays unknown, and so is
// not proposed.
std::optional<Controller::TriedCodec> Controller::Probe(const TensorState& tensor,
                                                        const ProbeTicket& ticket,
                                                        const std::byte* grad) {
  const Codec& codec = tensor.automatic->ladder[ticket.rung].codec;
  const int64_t elem_bytes = SizeOf(tensor.dtype);
  const std::optional<ProbePiece> piece = PieceToProbe(tensor.shape, elem_bytes, ticket.round);
  if (!piece) return std::nullopt;
  const ConstView view = {grad + piece->first_elem * elem_bytes, piece->elems, tensor.dtype};
  const StatusOr<ProbeReport> report =
      prober_.Probe(codec, view, piece->shape, options_.algorithms.world_size);
  if (!report.ok()) return std::nullopt;
  return TriedCodec{codec.spec, piece->elems, *report};
}

std::string Controller::TakeObservation() {
  if (!enabled()) return {};
  std::lock_guard lock(mu_);
  const std::optional<Measured> told = std::exchange(previous_, std::nullopt);
  return told && told->committed ? EncodeObservation(told->observation) : std::string();
}

// ---- whoever runs the engine ----

Controller::Measured* Controller::MeasuredIn(uint16_t turn) {
  for (std::optional<Measured>* measured : {&open_, &previous_}) {
    if (*measured && (*measured)->observation.turn == turn) return &**measured;
  }
  return nullptr;
}

// Operations complete nearly in the order of their submission, so that the union of the times in
// which they are under way is the sum of what each adds.
void Controller::NoteOperation(uint16_t turn, int64_t submit_ns, int64_t complete_ns) {
  if (!enabled()) return;
  std::lock_guard lock(mu_);
  const int64_t from_ns = std::max(submit_ns, busy_until_ns_);
  busy_until_ns_ = std::max(busy_until_ns_, complete_ns);
  if (Measured* measured = MeasuredIn(turn))
    measured->observation.busy_us += Us(std::max<int64_t>(complete_ns - from_ns, 0));
}

void Controller::EndTurn(uint16_t turn, bool commit, std::string_view order,
                         std::span<TensorState* const> tensors) {
  std::lock_guard lock(mu_);
  // Not while ranks wait for what Advise returns.
  log_.WriteOut();
  ++turns_;
  // Also before a tensor of spec `auto` is there: ranks hear of such a tensor in different turns,
  // and must tell what tensors measured in the same ones.
  if (commit) ++commits_;
  if (!enabled()) return;
  Measured* measured = MeasuredIn(turn);
  const bool tell_tensors = measured != nullptr && commit &&
                            (commits_ <= kFirstCommits || commits_ % kTensorsEverySteps == 0);
  if (measured != nullptr) measured->committed = commit;
  for (TensorState* tensor : tell_tensors ? Controlled(tensors) : std::vector<TensorState*>()) {
    const TensorTally& tally = tensor->tally;
    measured->observation.tensors.push_back({.tensor = tensor->id,
                                             .ready_us = tally.ready_us,
                                             .codec_us = Us(tally.codec_ns),
                                             .energy = EnergyOf(tally.energy),
                                             .error = EnergyOf(tally.error),
                                             .sum_energy = EnergyOf(tally.sum_energy)});
  }
  // Its ready time may be the next step's already.
  for (TensorState* tensor : tensors) tensor->tally = {.ready_us = tensor->tally.ready_us};
  if (order.empty()) return;
  StatusOr<PlanOrder> decoded = DecodeOrder(order);
  if (!decoded.ok()) {
    GW_LOG(kWarn, kPlan, "{}", decoded.status().ToString());
    return;
  }
  orders_.push_back({Number(decoded->from_turn), std::move(*decoded)});
  if (orders_.size() > kKeptOrders) orders_.pop_front();
}

// `automatic`: how many tensors are, also those that are too many.
void Controller::UpdateJob(std::span<TensorState* const> controlled, int64_t automatic) {
  const uint64_t digest = DigestOf(controlled);
  if (digest == job_digest_ && automatic == automatic_ && loaded_.empty()) return;
  job_digest_ = digest;
  automatic_ = automatic;
  job_ = {.world_size = options_.algorithms.world_size, .slice_elems = options_.slice_elems};
  for (const TensorState* tensor : controlled)
    job_.tensors.push_back(JobTensorOf(*tensor, options_.algorithms, &job_.candidates));
  memory_ = {};
  probe_schedule_.BeginAnew();
  job_since_commit_ = commits_;
  scope_ = ScopeOf(job_, automatic);
  if (!scope_.empty()) GW_LOG(kWarn, kPlan, "{}", scope_);
  is_model_off_told_ = false;
  // Who decides nothing leaves the file to other communicators of the process.
  if (options_.rank == 0 && !options_.log_path.empty()) log_.Begin(options_.log_path, options_.job);
  log_.Add(job_);
  Resume();
}

void Controller::Resume() {
  if (loaded_.empty()) return;
  const std::string knowledge = std::exchange(loaded_, {});
  note_.clear();
  StatusOr<Memory> memory = DecodeKnowledge(job_, knowledge);
  if (!memory.ok()) {
    note_ = memory.status().detail().message + ": it warms up again";
    GW_LOG(kWarn, kPlan, "{}", note_);
    return;
  }
  memory_ = std::move(*memory);
  log_.AddKnowledge(knowledge);
}

// Plan A of the last order, whichever job that was for.
Plan Controller::InEffect() const {
  if (orders_.empty()) return AllOn(job_, kBf16Rung);
  Plan plan(job_.tensors.size(), kNoneRung);
  const PlanOrder& order = orders_.back().plan;
  for (size_t t = 0; t < plan.size(); ++t) {
    const JobTensor& tensor = job_.tensors[t];
    const int rung = RungAt(order, tensor.id, order.from_turn);
    const bool usable =
        rung < static_cast<int>(tensor.ladder.size()) && tensor.ladder[rung].usable();
    if (usable) plan[t] = static_cast<uint8_t>(rung);
  }
  return plan;
}

std::string Controller::Save() const {
  std::lock_guard lock(mu_);
  return loaded_.empty() ? EncodeKnowledge(job_, memory_) : loaded_;
}

void Controller::Load(std::string knowledge) {
  std::lock_guard lock(mu_);
  loaded_ = std::move(knowledge);
}

std::vector<ProbeResult> Controller::TakeProbes() {
  std::vector<ProbeResult> results;
  for (const auto& [spec, elems, report] : std::exchange(probes_, {})) {
    for (size_t c = 0; c < job_.candidates.size(); ++c) {
      if (job_.candidates[c].spec != spec) continue;
      results.push_back({.candidate = static_cast<int>(c),
                         .elems = elems,
                         .codec_us_per_elem = report.codec_us_per_elem,
                         .relative_error = report.relative_error});
    }
  }
  return results;
}

std::string Controller::Advise(uint16_t turn, std::span<const std::string> observations,
                               std::span<TensorState* const> tensors) {
  std::vector<StepObservation> ranks;
  for (const std::string& bytes : observations) {
    if (bytes.empty()) return {};
    StatusOr<StepObservation> observation = DecodeObservation(bytes);
    if (!observation.ok()) {
      GW_LOG(kWarn, kPlan, "{}", observation.status().ToString());
      return {};
    }
    ranks.push_back(std::move(*observation));
  }
  const StatusOr<StepInput> step = Combine(ranks);
  if (!step.ok()) {
    GW_LOG(kWarn, kPlan, "{}", step.status().ToString());
    return {};
  }
  std::lock_guard lock(mu_);
  const std::vector<TensorState*> controlled = Controlled(tensors);
  if (controlled.empty()) return {};
  UpdateJob(controlled, CountAutomatic(tensors));
  if (!IsAnyFree(job_)) return {};
  const DecideInput input = {
      .turn = turn,
      .step = *step,
      .probes = TakeProbes(),
      // Those that nobody controls go from bf16 to none once there is a plan.
      .unplanned = orders_.empty() && automatic_ == std::ssize(job_.tensors)};
  const Plan before = InEffect();
  const std::optional<Decision> decision = Decide(job_, input, &memory_);
  log_.Add(input);
  if (memory_.outcome) changes_.NoteOutcome(*memory_.outcome);
  TellModel(input.step);
  if (!decision) return {};
  changes_.Add(job_, step->step, *decision, before);
  log_.Add(*decision);
  PlanOrder order = {.from_turn = decision->from_turn, .in_a_row = decision->in_a_row};
  for (size_t t = 0; t < job_.tensors.size(); ++t)
    order.entries.push_back({job_.tensors[t].id, decision->a[t], decision->b[t]});
  return EncodeOrder(order);
}

// ---- what people read ----

// Where it goes off, and where it is right again.
void Controller::TellModel(const StepInput& step) {
  if (std::exchange(is_model_off_told_, memory_.model_off) == memory_.model_off) return;
  GW_LOG(kInfo, kPlan, "step {}: model {}: steps take {:.2f} times what it predicts for their plan",
         step.step, memory_.model_off ? "off" : "right again", memory_.scale);
}

std::string Controller::Json() const {
  std::lock_guard lock(mu_);
  const bool blind = enabled() && commits_ == 0;
  const std::vector<CandidateReport> candidates = ReportCandidates(job_, memory_);
  const std::string note = Joined(Joined(scope_, note_), NoteOf(candidates, memory_));
  return JsonObject()
      .Add("note", blind ? kBlindNote : note)
      .Add("commits", commits_)
      .Add("probes", probe_schedule_.count())
      .Add("model_off", memory_.model_off)
      .Add("measured_over_predicted", memory_.scale)
      .AddJson("candidates", gradwire::Json(candidates))
      .AddJson("decisions", changes_.Json())
      .Text();
}

}  // namespace gradwire
