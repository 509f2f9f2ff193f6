#include "runtime/sim/sim_job.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "base/wrapping.h"
#include "runtime/operations/slice_bytes.h"
#include "transports/faulty/faulty_transport.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

// Rounds without effect until time passes: the faulty transport counts polls.
constexpr int kIdleRounds = 40;

class Unheard final : public ControlSink {
  void OnControl(const ControlMessage& /*message*/) override {}
  void OnRankLost(int /*rank*/, const Status& /*cause*/) override {}
};

template <typename T>
T Must(StatusOr<T> value) {
  if (!value.ok()) std::abort();
  return std::move(*value);
}

}  // namespace

JobRank::JobRank(const JobOptions& options, int rank, std::unique_ptr<Transport> transport,
                 ControlChannel* control, const Clock* clock)
    : tensors_({.rank = rank,
                .algorithms = {.world_size = options.world_size,
                               .exact = options.exact,
                               .encoded = options.encoded},
                .slice = {.elems = options.slice_elems},
                .seed = options.seed,
                .transaction = options.transaction,
                .nonfinite = options.nonfinite,
                .clock = clock}),
      transport_(std::move(transport)) {
  const EngineCore::Options core = {.rank = rank,
                                    .world_size = options.world_size,
                                    .job = kSimJobNumber,
                                    .window = options.window,
                                    .slice_bytes = SliceBytes(options.slice_elems),
                                    .op_timeout_ns = options.op_timeout_ns,
                                    .abort_timeout_ns = 50 * kNsPerMs,
                                    .silence_ns = options.liveness.bound_ns,
                                    .nonfinite = options.nonfinite,
                                    .first_op_seq = options.first_op_seq};
  EngineListener* listener = this;
  core_ = std::make_unique<EngineCore>(core, transport_.get(), control, clock, listener);
}

void JobRank::OnOperationDone(Operation& operation) { tensors_.NoteDone(operation); }

std::string JobRank::OnObservations(uint16_t turn, std::span<const std::string> observations) {
  return tensors_.Advise(turn, observations);
}

void JobRank::OnTurnEnd(const TurnResult& result) {
  tensors_.EndTurn(result);
  results_.push_back(result);
  if (on_turn_end) on_turn_end(result);
}

TensorState* JobRank::Register(const std::string& name, int64_t elems, DType dtype,
                               const std::string& spec) {
  auto tensor = std::make_unique<TensorState>();
  tensor->name = name;
  // A matrix, for methods that want one.
  const int64_t rows = std::gcd(elems, int64_t{32});
  tensor->shape = {rows, elems / rows};
  tensor->elems = elems;
  tensor->dtype = dtype;
  SetSpec(tensor.get(), spec);
  return Must(tensors_.table().Add(std::move(tensor)));
}

void JobRank::SetSpec(TensorState* tensor, const std::string& spec) {
  tensor->SetCodec(Must(MakeCodec(spec)));
}

void JobRank::SetAutomatic(TensorState* tensor, std::shared_ptr<const AutoSpec> spec) {
  tensors_.Automate(tensor, std::move(spec), turn());
}

// Nobody can wait here as a communicator does, until the engine has come to the step's turn.
void JobRank::FollowPlan(std::span<const SubmittedTensor> tensors, const StepContext& step) {
  const std::vector<RankTensors::CodecChange> changes = tensors_.PlannedChanges(tensors, step);
  if (!changes.empty() && TurnsAhead(turn(), step.turn) < 0) std::abort();
  tensors_.TakeChanges(changes);
}

std::shared_ptr<Operation> JobRank::SubmitRaw(RawOp op, const AlgorithmRow& row, uint16_t turn) {
  std::shared_ptr<Operation> operation = tensors_.MakeRaw(op, row, turn);
  core_->Submit(operation);
  return operation;
}

Operations JobRank::SubmitTensors(std::span<const SubmittedTensor> tensors, ReduceOp op,
                                  const StepContext& step) {
  FollowPlan(tensors, step);
  Operations operations = Must(tensors_.MakeAllReduce(tensors, op, step));
  for (const std::shared_ptr<Operation>& operation : operations) core_->Submit(operation);
  return operations;
}

std::shared_ptr<Operation> JobRank::SubmitReduceScatter(const SubmittedTensor& tensor, ReduceOp op,
                                                        const StepContext& step) {
  std::shared_ptr<Operation> operation = Must(tensors_.MakeReduceScatter(tensor, op, step));
  core_->Submit(operation);
  return operation;
}

void JobRank::EndStep(const StepContext& step, bool no_wait) {
  TurnEnd end = tensors_.MakeTurnEnd(step);
  end.no_wait = no_wait;
  core_->EndTurn(end);
}

SimJob::SimJob(const JobOptions& options)
    : options_(options),
      is_stopped_(static_cast<size_t>(options.world_size)),
      moved_(static_cast<size_t>(options.world_size)) {
  SimOptions network = options.network;
  network.world_size = options.world_size;
  network_ = Must(SimNetwork::Make(network));
  control_ = std::make_unique<SimControl>(SimControlOptions{.world_size = options.world_size,
                                                            .job = kSimJobNumber,
                                                            .liveness = options.liveness,
                                                            .seed = network.seed},
                                          &network_->clock());
  std::shared_ptr<LoopbackHub> hub;
  if (options.loopback) {
    hub = Must(MakeLoopbackHub({.world_size = options.world_size,
                                .fragment_bytes = network.fragment_bytes,
                                .slots = network.slots}));
  }
  std::vector<std::string> addresses;
  for (int r = 0; r < options.world_size; ++r) {
    std::unique_ptr<Transport> end =
        Must(options.loopback ? MakeLoopbackEnd(hub, r) : network_->MakeEnd(r));
    if (options.faults) {
      FaultPlan plan = *options.faults;
      plan.seed = plan.seed * 64 + r;
      end = MakeFaulty(std::move(end), plan);
    }
    addresses.push_back(end->address());
    clocks_.emplace_back(&network_->clock());
    ranks_.push_back(std::make_unique<JobRank>(options, r, std::move(end), control_->channel(r),
                                               &clocks_.back()));
  }
  for (auto& rank : ranks_) {
    if (!rank->transport().Connect(addresses).ok()) std::abort();
  }
}

void SimJob::Kill(int rank) {
  control_->Kill(rank);
  ranks_[rank]->Die();
}

int64_t SimJob::FreeNs() const {
  int64_t free_ns = INT64_MAX;
  for (const RankClock& clock : clocks_) {
    if (clock.is_busy()) free_ns = std::min(free_ns, clock.busy_until_ns());
  }
  return free_ns;
}

void SimJob::PassTime(int64_t next_ns) {
  const int64_t before_ns = now_ns();
  const int64_t free_ns = FreeNs();
  // What is due and has not been taken waits for a rank that is busy.
  const auto counts = [&](int64_t ns) { return ns > before_ns || free_ns == INT64_MAX; };
  next_ns = std::min(next_ns, free_ns);
  if (const int64_t due_ns = control_->NextNs(); counts(due_ns))
    next_ns = std::min(next_ns, due_ns);
  const std::optional<int64_t> event_ns = network_->NextEventNs();
  if (event_ns && counts(*event_ns) && *event_ns <= next_ns) {
    network_->AdvanceToNextEvent();
  } else if (next_ns > before_ns) {
    network_->clock().Set(next_ns);
  }
}

bool SimJob::Poll(int rank) {
  if (!is_stopped_[rank]) return ranks_[rank]->Poll();
  Unheard unheard;
  return control_->channel(rank)->Poll(&unheard) > 0;
}

bool SimJob::MayMove(int rank) {
  return !options_.idle_ranks_rest || moved_[rank] || network_->HasNews(rank) ||
         control_->NextNs(rank) <= now_ns();
}

bool SimJob::RunUntil(const std::function<bool()>& done, int64_t bound_ns) {
  return RunUntil(done, bound_ns, Callers());
}

bool SimJob::RunUntil(const std::function<bool()>& done, int64_t bound_ns, const Callers& callers) {
  int64_t stuck_rounds = 0;
  moved_.assign(moved_.size(), true);  // the caller may have done something since
  for (int idle = 0; !done();) {
    bool busy = false;
    for (int rank : network_->RankOrder()) {
      if (!alive(rank) || clocks_[rank].is_busy()) continue;
      bool moves = callers.work(rank);
      if (alive(rank) && (moves || MayMove(rank))) moves |= Poll(rank);
      moved_[rank] = moves;
      busy |= moves;
    }
    idle = busy ? 0 : idle + 1;
    if (busy || (options_.faults && idle < kIdleRounds)) continue;
    const int64_t before_ns = now_ns();
    PassTime(callers.next_ns());
    stuck_rounds = now_ns() > before_ns ? 0 : stuck_rounds + 1;
    if (now_ns() > bound_ns || stuck_rounds > 10'000) return false;
  }
  return true;
}

}  // namespace gradwire
