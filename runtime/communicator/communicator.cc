#include "runtime/communicator/communicator.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/failpoint.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/wrapping.h"
#include "runtime/engine/end_budget.h"
#include "runtime/operations/slice_bytes.h"

namespace gradwire {
namespace {

// The results of turns a caller may still ask for: it is at most two behind.
constexpr size_t kKeptResults = 8;

}  // namespace

StatusOr<std::unique_ptr<Communicator>> Communicator::Create(CommParts parts) {
  StatusOr<Codec> none = MakeCodec("none");
  if (!none.ok()) return none.status();
  std::unique_ptr<Communicator> comm(new Communicator(std::move(parts)));
  comm->none_ = *std::move(none);
  const CommParts& p = comm->parts_;
  const EngineCore::Options options = {.rank = p.rank,
                                       .world_size = p.world_size,
                                       .job = p.job,
                                       .window = p.agreed.window,
                                       .slice_bytes = SliceBytes(p.agreed.slice.elems),
                                       .op_timeout_ns = p.op_timeout_ns,
                                       .abort_timeout_ns = p.abort_timeout_ns,
                                       .silence_ns = p.silence_ns,
                                       .nonfinite = p.agreed.nonfinite,
                                       .recorder = p.recorder.get(),
                                       .timeline = comm->timeline_.get()};
  EngineListener* listener = comm.get();
  comm->engine_ = std::make_unique<Engine>(options, p.idle, p.transport.get(), p.control.get(),
                                           comm->clock_, listener);
  if (Status started = comm->engine_->StartThread(); !started.ok()) {
    // The others are told why; a leave would tell them that this rank is finished.
    comm->parts_.control->LeaveWith(Status(started).WithRank(p.rank));
    comm->finalized_ = true;
    return started;
  }
  if (!p.record_path.empty()) {
    comm->engine_->WithCore([&](EngineCore& core) { core.SetRecord(&comm->record_); });
  }
  comm->parts_.wake_target->store(comm->engine_.get());
  return comm;
}

Communicator::Communicator(CommParts parts)
    : parts_(std::move(parts)),
      clock_(&SteadyClock()),
      timeline_(parts_.timeline_path.empty() ? nullptr : std::make_unique<Timeline>()),
      tensors_({.rank = parts_.rank,
                .algorithms = {.world_size = parts_.world_size,
                               .one_host = parts_.agreed.one_host,
                               .exact = parts_.agreed.all_reduce},
                .slice = parts_.agreed.slice,
                .seed = parts_.agreed.seed,
                .transaction = parts_.agreed.transaction,
                .nonfinite = parts_.agreed.nonfinite,
                .clock = clock_,
                .timeline = timeline_.get(),
                .job = parts_.job,
                .plan_log = parts_.plan_log}) {}

Communicator::~Communicator() {
  if (engine_ == nullptr) return;  // there was no memory for it
  const EndBudget budget{parts_.abort_timeout_ns};
  const Deadline end = Deadline::After(*clock_, budget.all_ns);
  if (!finalized_ && !is_fatal_.load()) {
    (void)Leave(Deadline::After(*clock_, budget.patience_ns()));
    // Nobody can ask for the last error any more.
    if (const Status untold = UntoldAbort(); !untold.ok())
      GW_LOG(kWarn, kStep, "{}", untold.ToString());
  }
  const Status destroyed(gwAborted, {.message = "the communicator was destroyed",
                                     .hint = "Wait for all requests before gwCommDestroy",
                                     .rank = parts_.rank});
  const bool idle = engine_->WithCore([](EngineCore& core) { return core.idle(); });
  if (!idle && !is_fatal_.load()) {
    engine_->Abort(destroyed);
    engine_->HelpUntil([&](const EngineCore&) { return is_fatal_.load(); }, end);
  }
  parts_.wake_target->store(nullptr);
  if (!finalized_ && is_fatal_.load()) TellWhy();
  parts_.control->Shutdown();
  // Requests outlive the communicator and must not stay incomplete, also where the time was up
  // before anybody had polled.
  engine_->Close(destroyed);
  engine_.reset();
  if (!is_fatal_.load())
    parts_.recorder->Record({.kind = RecordKind::kClose, .time_ns = clock_->NowNs()});
  WriteRecord();
  WriteTimeline();
  parts_.transport->LimitClosing(EndBudget::closing_ns(end.RemainingNs(*clock_)));
}

// The others may not have heard it.
void Communicator::TellWhy() {
  try {
    parts_.control->LeaveWith(async_error());
  } catch (const std::exception&) {
    // There is no memory for that either: they see the connection end.
  }
}

Status Communicator::CheckUsable() const {
  if (finalized_)
    return Status(gwInvalidUsage, "the communicator is finalized", "Create a new one");
  return async_error();
}

Communicator::Blocked::Blocked(Communicator* comm)
    : comm_(comm),
      span_(comm->timeline_.get(), comm->clock_, SpanKind::kBlocked),
      begin_ns_(comm->step_clock_.is_running() ? comm->clock_->NowNs() : 0) {}

Communicator::Blocked::~Blocked() {
  if (begin_ns_ == 0) return;
  const int64_t waited_ns = comm_->clock_->NowNs() - begin_ns_;
  comm_->step_clock_.NoteBlocked(waited_ns);
  comm_->tensors_.controller().NoteBlocked(waited_ns);
}

bool Communicator::HelpUntil(const Engine::Ready& ready, const Deadline& deadline) {
  const Blocked blocked(this);
  return engine_->HelpUntil(ready, deadline);
}

// ---- exact collectives ----

StatusOr<std::shared_ptr<Operation>> Communicator::MakeRawOperation(RawOp op,
                                                                    std::string_view name) {
  const int64_t bytes = op.count * SizeOf(op.dtype);
  const StatusOr<const AlgorithmRow*> algorithm =
      tensors_.algorithms().For(op.collective, bytes, false);
  if (!algorithm.ok()) return algorithm.status();
  std::shared_ptr<Operation> operation = tensors_.MakeRaw(op, **algorithm, user_turn_);
  if (!name.empty()) operation->name = name;
  return operation;
}

Status Communicator::Run(RawOp op, std::string_view name, const Operation::Patience& patience) {
  GW_RETURN_IF_ERROR(CheckUsable());
  GW_RETURN_IF_ERROR(CatchUp());
  const StatusOr<std::shared_ptr<Operation>> made = MakeRawOperation(op, name);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Operation>& operation = *made;
  operation->patience = patience;
  {
    const Blocked blocked(this);
    engine_->SubmitAndHelp(operation);
  }
  if (!operation->status.ok()) FollowTurn(operation->turn);
  return operation->status;
}

Status Communicator::Check(const CallGroup& group) const {
  GW_RETURN_IF_ERROR(CheckUsable());
  return CheckToMyself(group.messages, parts_.rank);
}

StatusOr<IssuedCalls> Communicator::Issue(const CallGroup& group) {
  // Messages between two ranks have no part in turns.
  if (!group.collectives.empty()) GW_RETURN_IF_ERROR(CatchUp());
  IssuedCalls issued;
  for (const RawOp& op : group.collectives) {
    StatusOr<std::shared_ptr<Operation>> made = MakeRawOperation(op, {});
    if (!made.ok()) return made.status();
    issued.operations.push_back(std::move(*made));
  }
  CopyToMyself(group.messages, parts_.rank);
  for (const MessageCall& call : group.messages) {
    if (call.peer == parts_.rank) continue;
    auto transfer = std::make_shared<Transfer>();
    transfer->kind = call.kind;
    transfer->peer = call.peer;
    transfer->memory = call.memory;
    transfer->count = call.count;
    transfer->dtype = call.dtype;
    issued.transfers.push_back(std::move(transfer));
  }
  engine_->Issue(issued.operations, issued.transfers);
  return issued;
}

Status Communicator::Finish(const IssuedCalls& issued) {
  const auto is_done = [](const auto& call) { return call->done.load(std::memory_order_acquire); };
  const auto all_done = [&](const EngineCore&) {
    return std::all_of(issued.transfers.begin(), issued.transfers.end(), is_done) &&
           std::all_of(issued.operations.begin(), issued.operations.end(), is_done);
  };
  HelpUntil(all_done, Deadline::Never());
  Status first;
  for (const std::shared_ptr<Operation>& operation : issued.operations) {
    if (operation->status.ok()) continue;
    FollowTurn(operation->turn);
    if (first.ok()) first = operation->status;
  }
  for (const std::shared_ptr<Transfer>& transfer : issued.transfers) {
    if (first.ok()) first = transfer->status;
  }
  return first;
}

// ---- what the engine tells ----

void Communicator::OnOperationDone(Operation& operation) {
  statistics_.NoteDone(operation);
  tensors_.NoteDone(operation);
}

void Communicator::OnTurnEnd(const TurnResult& result) {
  tensors_.EndTurn(result);
  statistics_.NoteOutcome(result.outcome);
  std::lock_guard lock(mu_);
  turn_results_.push_back(result);
  if (turn_results_.size() > kKeptResults) turn_results_.erase(turn_results_.begin());
  engine_turn_.store(static_cast<uint16_t>(result.turn + 1));
  if (result.outcome != StepOutcome::kCommit) failed_.store(true);
}

std::string Communicator::OnObservations(uint16_t turn, std::span<const std::string> observations) {
  return tensors_.Advise(turn, observations);
}

void Communicator::OnFatal(const Status& status) {
  {
    std::lock_guard lock(mu_);
    if (!is_fatal_.load()) fatal_ = status;
    is_fatal_.store(true);
    failed_.store(true);
  }
  GW_LOG(kWarn, kColl, "the communicator has ended: {}", status.ToString());
}

uint64_t Communicator::TakeSplitSalt(uint32_t number) {
  splits_ = number + 1;
  return Hasher().Add(parts_.agreed.seed).Add(number).digest();
}

// What happens between the two lines is seen by the second, what happens later by the engine.
const std::atomic<bool>* Communicator::WatchForFailure() {
  failed_.store(false);
  if (is_fatal_.load() || TurnsAhead(engine_turn_.load(), user_turn_) > 0) failed_.store(true);
  return &failed_;
}

Status Communicator::async_error() const {
  if (!is_fatal_.load()) return Status();
  std::lock_guard lock(mu_);
  return fatal_;
}

// ---- end ----

Status Communicator::Finalize() {
  if (finalized_)
    return Status(gwInvalidUsage, "the communicator is finalized already", "Destroy it");
  return Leave(Deadline::Never());
}

// No later than `end`, beside the bounds that what it waits for has of its own.
Status Communicator::Leave(const Deadline& end) {
  if (step_open_) {
    if (!is_fatal_.load()) {
      GW_LOG(kWarn, kStep, "step {} is open at the end of the communicator: it was not committed",
             step_);
    }
    LeaveStep();
  }
  if (failed_turn_) FollowTurn(*std::exchange(failed_turn_, std::nullopt), end);
  Status waited = is_fatal_.load() ? async_error() : WaitForTurn(user_turn_, end);
  if (waited.ok()) waited = AwaitOthers(end);
  finalized_ = true;
  PassFailpoint(Failpoint::kBye);
  const int64_t bye_ns = EndBudget{parts_.abort_timeout_ns}.bye_ns();
  const Status bye = parts_.control->GracefulBye(std::min(bye_ns, end.RemainingNs(*clock_)));
  return waited.ok() ? bye : waited;
}

// Until what was submitted is complete, and a little longer: a broadcast or a reduce may let this
// rank through before another one finds that ranks disagree in it, and once this rank has left it
// hears nothing of that.
Status Communicator::AwaitOthers(const Deadline& end) {
  // An operation that does not move is ended by op_timeout_ms.
  const auto ended = [&](const EngineCore& core) {
    return is_fatal_.load() || (core.fatal().ok() && core.idle());
  };
  const auto settled = [&](const EngineCore& core) {
    return is_fatal_.load() || (ended(core) && core.settled());
  };
  if (engine_->HelpUntil(ended, end)) {
    engine_->WithCore([](EngineCore& core) { core.TellThrough(); });
    const EndBudget budget{parts_.abort_timeout_ns};
    const Deadline soon = Deadline::After(*clock_, budget.through_ns());
    // An abort that has begun by then is awaited too.
    if (!engine_->HelpUntil(settled, Earlier(end, soon))) engine_->HelpUntil(ended, end);
  }
  const Status fatal = async_error();
  return fatal.ok() ? UntoldAbort() : fatal;
}

void Communicator::Abort() {
  const Status why(gwAborted, ErrorDetail{.message = "the communicator was aborted by the caller",
                                          .rank = parts_.rank});
  parts_.control->LeaveWith(why);
  engine_->Abort(why);
  engine_->HelpUntil([&](const EngineCore&) { return is_fatal_.load(); },
                     Deadline::After(*clock_, parts_.abort_timeout_ns));
}

void Communicator::SetLastError(std::string text) {
  std::lock_guard lock(mu_);
  last_error_ = std::move(text);
}

std::string Communicator::last_error() const {
  std::lock_guard lock(mu_);
  return last_error_;
}

// ---- statistics ----

std::string Communicator::StatsJson() {
  CommFacts facts = {.rank = parts_.rank,
                     .world_size = parts_.world_size,
                     .transport = parts_.agreed.transport,
                     .slice_elems = parts_.agreed.slice.elems,
                     .control_bytes = parts_.control->sent_bytes()};
  // A copy: counting encodes runs all ranks' schedules, and the engine must not wait for that.
  const CommStatistics statistics = engine_->WithCore([&](EngineCore& core) {
    facts.driver = core.counters();
    facts.window = core.window();
    return statistics_;
  });
  return statistics.Json(facts, &tensors_.schedules());
}

std::string Communicator::LedgerJson() {
  return engine_->WithCore([&](EngineCore&) {
    return gradwire::LedgerJson({.rank = parts_.rank,
                                 .world_size = parts_.world_size,
                                 .transaction = parts_.agreed.transaction},
                                step_clock_, tensors_.table().All(), tensors_.controller().Json());
  });
}

void Communicator::WriteTimeline() {
  if (timeline_ == nullptr) return;
  const Status written = timeline_->WriteTo(
      parts_.timeline_path, {.job = parts_.job, .rank = parts_.rank, .ranks = parts_.world_size});
  if (!written.ok()) GW_LOG(kWarn, kStep, "{}", written.ToString());
}

void Communicator::WriteRecord() {
  if (parts_.record_path.empty()) return;
  const Status written = record_.WriteTo(parts_.record_path, parts_.rank);
  if (!written.ok()) GW_LOG(kWarn, kColl, "{}", written.ToString());
}

}  // namespace gradwire
