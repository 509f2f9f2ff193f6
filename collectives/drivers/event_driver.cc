#include "collectives/drivers/event_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failpoint.h"
#include "base/wrapping.h"
#include "collectives/drivers/submit_mismatch.h"

namespace gradwire {
namespace {

// Free slots that keep the executor of another schedule. Jobs alternate between few: an exact
// all-reduce, an encoded one, a reduction and its gather.
constexpr int kFreeSlots = 4;

// What a peer may send to a slice that is not admitted here: S bounds what goes into a run at a
// rank and what comes out of it, and a message may carry either.
constexpr int64_t kKeptPerSlice = 2;
// On top of them: kept frames count with their headers, and bare headers are nothing else.
constexpr int64_t kKeptHeaderBytes = int64_t{1} << 20;

constexpr int kSlotShift = 32;
SendToken MakeToken(int slot, int32_t step) {
  return static_cast<uint64_t>(slot) << kSlotShift | static_cast<uint32_t>(step);
}

}  // namespace

EventDriver::EventDriver(Transport* transport, const Options& options)
    : transport_(transport),
      options_(options),
      peers_(options.world_size),
      kept_(options.world_size,
            kKeptPerSlice * options.window * options.max_message_bytes + kKeptHeaderBytes),
      awaited_(options.rank) {}

EventDriver::Run* EventDriver::FindRun(const RunKey& key) {
  for (int slot : active_) {
    if (slots_[slot]->spec.key == key) return slots_[slot].get();
  }
  return nullptr;
}

// One that last ran the same schedule, so that its executor serves again.
int EventDriver::FreeSlot(const PreparedSchedule* schedule) {
  int lowest = -1, free = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i]->live || slots_[i]->in_flight != 0) continue;
    if (slots_[i]->spec.schedule == schedule) return static_cast<int>(i);
    if (free++ == 0) lowest = static_cast<int>(i);
  }
  if (free >= kFreeSlots) return lowest;
  slots_.push_back(std::make_unique<Run>());
  return static_cast<int>(slots_.size()) - 1;
}

void EventDriver::Start(const RunSpec& spec) {
  const int slot = FreeSlot(spec.schedule);
  Run& run = *slots_[slot];
  if (run.executor && run.spec.schedule == spec.schedule) {
    run.executor->Reset();
  } else {
    run.executor = std::make_unique<Executor>(spec.schedule);
  }
  run.spec = spec;
  run.live = true;
  awaited_.Begin(spec.key);
  const size_t steps = spec.schedule->schedule.steps.size();
  run.recvs.resize(steps);
  for (RecvState& r : run.recvs) r.received = 0, r.complete = r.expected = false;
  run.sends.assign(steps, SendState{});
  active_.push_back(slot);
  TakeCommands(slot);
  // Before anything else: the peers wait for it.
  PumpSends();
  Replay(run);
  Collect(slot);
}

// Fragments that came before the run began.
void EventDriver::Replay(Run& run) {
  for (const KeptFrames::Frame& kept : kept_.Take(turn_, run.spec.key)) {
    if (error_) return;
    Receive(run, kept.peer, kept.header, kept.bytes.bytes());
  }
}

void EventDriver::BeginTurn(uint16_t turn) {
  turn_ = turn;
  finished_.clear();  // cancelled ones, whose names the new turn gives again
  awaited_.BeginTurn();
  cancelled_ = false;
  kept_.DropAllBut(turn);
}

void EventDriver::CancelAll(const Status& status) {
  cancelled_ = true;
  const std::vector<int> active = active_;
  for (int slot : active) {
    Run& run = *slots_[slot];
    transport_->Cancel(run.spec.key.op_seq);
    finished_.push_back({run.spec.key, status});
    run.live = false;
  }
  active_.clear();
  computes_.clear();
  for (PeerState& peer : peers_) peer.sends.clear(), peer.sealed = false;
  kept_.Drop(turn_);
}

bool EventDriver::Poll() {
  bool moved = transport_->Progress(this) > 0;
  for (size_t i = 0; i < active_.size(); ++i) TakeCommands(active_[i]);
  bool runs_moved = PumpSends();
  moved |= std::exchange(messages_moved_, false);
  runs_moved |= ComputeOnce();
  for (size_t i = active_.size(); i-- > 0;) Collect(active_[i]);
  runs_moved_ |= runs_moved;
  return moved || runs_moved;
}

void EventDriver::TakeCommands(int slot) {
  Run& run = *slots_[slot];
  commands_.clear();
  run.executor->TakeReady(&commands_);
  // Expect may complete a receive whose fragments are all here, and that makes more steps ready.
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Command command = commands_[i];
    const Step& step = run.spec.schedule->schedule.steps[command.step];
    switch (command.kind) {
      case Command::Kind::kSend: peers_[step.peer].sends.push_back({slot, command.step}); break;
      case Command::Kind::kCompute: computes_.push_back({slot, command.step}); break;
      case Command::Kind::kExpect:
        Expect(run, command.step);
        run.executor->TakeReady(&commands_);
        break;
    }
  }
}

void EventDriver::Expect(Run& run, int32_t step) {
  RecvState& recv = run.recvs[step];
  recv.expected = true;
  if (recv.received > 0) Consume(run, step, 0, {recv.staging.data(), recv.received});
  if (recv.complete) run.executor->Complete(step, Status());
}

void EventDriver::Consume(Run& run, int32_t step_index, int64_t offset, ConstBytes fragment) {
  const Step& step = run.spec.schedule->schedule.steps[step_index];
  if (step.kind == StepKind::kRecvReduce) {
    run.spec.work->Combine(step, offset, fragment);
  } else {
    std::memcpy(run.spec.work->Memory(step.dst).data + offset, fragment.data, fragment.size);
  }
}

void EventDriver::Fail(int peer, std::optional<RunKey> key, Status status, bool next_turn) {
  if (error_) {
    error_->next_turn |= next_turn;
    return;
  }
  error_ =
      ProtocolError{std::move(status).WithRank(options_.rank).WithPeer(peer), peer, key, next_turn};
}

// Whose it was nobody knows where the header's own checksum failed. Its number could be any, and of
// two such the ranks would not agree which operation is the first in doubt.
void EventDriver::OnDamage(int peer, const FrameHeader& header, Status why) {
  const bool is_known = why.detail().peer >= 0;
  const bool is_message = is_known && (header.flags & kFramePointToPoint) != 0;
  if (options_.point_to_point != nullptr && (is_message || !is_known))
    options_.point_to_point->OnDamage(peer, why);
  if (is_message) return;
  Fail(peer, is_known ? std::optional(KeyOf(header)) : std::nullopt, std::move(why), true);
}

void EventDriver::OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) {
  const FrameExpectation expected = {options_.job, options_.epoch, options_.world_size,
                                     options_.max_message_bytes, transport_->caps().within_host};
  Status why;
  switch (CheckFrame(header, fragment, expected, &why)) {
    case FrameVerdict::kValid: break;
    case FrameVerdict::kStale: ++counters_.stale_frames; return;
    case FrameVerdict::kCorrupt: return OnDamage(peer, header, std::move(why));
  }
  if (header.src != peer) {
    return Fail(
        peer, KeyOf(header),
        Status(gwDataCorrupt,
               fmt::format("a frame from rank {} claims to come from rank {}", peer, header.src)),
        true);
  }
  counters_.received_bytes += fragment.size + static_cast<int64_t>(sizeof(FrameHeader));
  if ((header.flags & kFramePointToPoint) != 0) {
    if (options_.point_to_point != nullptr)
      options_.point_to_point->OnFragment(peer, header, fragment);
    return;
  }
  Accept(peer, header, fragment);
}

void EventDriver::Accept(int peer, const FrameHeader& header, ConstBytes fragment) {
  runs_moved_ = true;
  const int ahead = TurnsAhead(header.turn, turn_);
  const RunKey key = KeyOf(header);
  if (ahead < 0 || (ahead == 0 && cancelled_)) {
    ++counters_.stale_frames;
    return;
  }
  if (ahead > 1) {
    return Fail(
        peer, key,
        Status(gwDataCorrupt,
               fmt::format("a frame is {} turns ahead; nobody can be more than one", ahead)));
  }
  if (ahead == 1) return Keep(peer, header, fragment);
  if (Run* run = FindRun(key)) return Receive(*run, peer, header, fragment);
  if (Status s = awaited_.Check(peer, key); !s.ok()) return Fail(peer, key, std::move(s));
  Keep(peer, header, fragment);
}

void EventDriver::SetCompletedBelow(uint32_t op_seq) {
  awaited_.SetCompletedBelow(op_seq);
  CheckKept();
}

void EventDriver::SetSubmitted(uint32_t operations) {
  awaited_.SetSubmitted(operations);
  CheckKept();
}

// What was awaited when it came may be so no more.
void EventDriver::CheckKept() {
  kept_.ForEach(turn_, [&](int peer, const RunKey& key) {
    Status s = awaited_.Check(peer, key);
    if (s.ok()) return true;
    Fail(peer, key, std::move(s));
    return false;
  });
}

void EventDriver::Keep(int peer, const FrameHeader& header, ConstBytes fragment) {
  if (Status s = kept_.Keep(peer, header, fragment); !s.ok())
    return Fail(peer, KeyOf(header), std::move(s));
  counters_.staged_bytes += fragment.size;
}

void EventDriver::Receive(Run& run, int peer, const FrameHeader& header, ConstBytes fragment) {
  if (header.signature != run.spec.signature) {
    return Fail(peer, run.spec.key, OperationMismatch(header.op_seq));
  }
  const int32_t message = MessageOf(header);
  const int32_t step = run.spec.schedule->FindRecv(peer, message);
  if (step < 0 || run.recvs[step].complete) {
    return Fail(peer, run.spec.key,
                Status(gwDataCorrupt,
                       fmt::format("message {} is not awaited from rank {}", message, peer)));
  }
  RecvState& recv = run.recvs[step];
  const int64_t message_bytes =
      run.spec.work->MessageBytes(run.spec.schedule->schedule.steps[step].dst);
  if (header.message_bytes != message_bytes || header.offset != recv.received) {
    return Fail(peer, run.spec.key,
                Status(gwDataCorrupt,
                       fmt::format("message {} of rank {} has {} bytes at {}, expected {} at {}",
                                   message, peer, header.message_bytes, header.offset,
                                   message_bytes, recv.received)));
  }
  if (recv.expected) {
    if (fragment.size > 0) Consume(run, step, recv.received, fragment);
  } else if (fragment.size > 0) {
    counters_.staged_bytes += fragment.size;
    if (Status s = recv.staging.EnsureBytes(message_bytes); !s.ok())
      return Fail(peer, run.spec.key, std::move(s));
    std::memcpy(recv.staging.data() + recv.received, fragment.data, fragment.size);
  }
  recv.received += fragment.size;
  recv.complete = recv.received == message_bytes;
  if (recv.expected && recv.complete) run.executor->Complete(step, Status());
}

bool EventDriver::PumpSends() {
  bool moved = false;
  for (int peer = 0; peer < options_.world_size; ++peer) moved |= PumpPeer(peer);
  return moved;
}

bool EventDriver::PumpPeer(int peer) {
  PeerState& state = peers_[peer];
  if (state.sends.empty()) return false;
  // One fragment, and runs have the rest: neither keeps the other out, however little room there
  // is at a time.
  PointToPoint* const messages = options_.point_to_point;
  if (state.messages_first && messages->OfferNext(peer)) {
    state.messages_first = false;
    messages_moved_ = true;
  }
  bool moved = false;
  bool full = false;
  while (!state.sends.empty() && !full) {
    PendingSend& pending = state.sends.front();
    moved |= OfferFragments(peer, &pending, &full);
    if (slots_[pending.slot]->sends[pending.step].offered_all) state.sends.pop_front();
  }
  if (moved && messages != nullptr) state.messages_first = messages->Waits(peer);
  return moved;
}

FrameHeader EventDriver::HeaderFor(const Run& run, int32_t message) const {
  const RunKey& key = run.spec.key;
  return {.turn = turn_,
          .flags = static_cast<uint16_t>(transport_->caps().within_host ? kFrameNoFragmentCrc : 0),
          .src = static_cast<uint16_t>(options_.rank),
          .epoch = options_.epoch,
          .job = options_.job,
          .op_seq = key.op_seq,
          .slice = key.slice,
          .message = MessageField(message, key.run),
          .signature = run.spec.signature};
}

bool EventDriver::OfferFragments(int peer, PendingSend* pending, bool* full) {
  Run& run = *slots_[pending->slot];
  SendState& send = run.sends[pending->step];
  const Step& step = run.spec.schedule->schedule.steps[pending->step];
  const ConstBytes source = run.spec.work->Memory(step.src);
  PeerState& state = peers_[peer];
  const SendToken token = MakeToken(pending->slot, pending->step);
  bool moved = false;
  do {
    if (state.in_flight >= transport_->caps().fragments_in_flight || state.lost) {
      *full = true;
      return moved;
    }
    const int64_t bytes =
        std::min<int64_t>(source.size - send.offered, transport_->caps().max_fragment_bytes);
    const ConstBytes fragment = source.Sub(send.offered, bytes);
    if (!state.sealed) {
      state.header = HeaderFor(run, step.message);
      state.header.message_bytes = static_cast<uint32_t>(source.size);
      state.header.offset = static_cast<uint32_t>(send.offered);
      state.header.fragment_bytes = static_cast<uint32_t>(bytes);
      SealFrame(&state.header, fragment);
      state.sealed = true;
    }
    if (transport_->TrySend(peer, state.header, fragment, token) != SendOutcome::kAccepted) {
      *full = true;
      return moved;
    }
    ++send.in_flight, ++run.in_flight, ++state.in_flight, ++outstanding_sends_;
    state.sealed = false;
    if (send.offered == 0 && record_) record_->Add({peer, run.spec.key, step.message, source.size});
    moved = true;
    send.offered += bytes;
    counters_.sent_bytes += bytes + static_cast<int64_t>(sizeof(FrameHeader));
    ++counters_.sent_frames;
    if (send.offered < source.size) PassFailpoint(Failpoint::kFragment);
  } while (send.offered < source.size);
  send.offered_all = true;
  return moved;
}

void EventDriver::OnSent(SendToken token) {
  if (PointToPoint::Owns(token)) return options_.point_to_point->OnSent(token);
  runs_moved_ = true;
  const auto step = static_cast<int32_t>(token & 0xffffffffu);
  Run& run = *slots_[token >> kSlotShift];
  --outstanding_sends_;
  --run.in_flight;
  --peers_[run.spec.schedule->schedule.steps[step].peer].in_flight;
  if (!run.live) return;  // cancelled; the slot waits for its last fragments
  SendState& send = run.sends[step];
  --send.in_flight;
  if (send.in_flight == 0 && send.offered_all) run.executor->Complete(step, Status());
}

void EventDriver::OnPeerLost(int peer, const Status& cause) {
  peers_[peer].lost = true;
  lost_.emplace_back(peer, cause);
}

bool EventDriver::ComputeOnce() {
  if (computes_.empty()) return false;
  PendingCompute& compute = computes_.front();
  Run& run = *slots_[compute.slot];
  StatusOr<bool> finished =
      run.spec.work->Compute(run.spec.schedule->schedule.steps[compute.step], &compute.cursor);
  if (finished.ok() && !*finished) return true;
  run.executor->Complete(compute.step, finished.status());
  const int slot = compute.slot;
  computes_.pop_front();
  TakeCommands(slot);
  return true;
}

// A run that failed ends at once: what it still awaits may never be sent.
void EventDriver::Withdraw(int slot) {
  transport_->Cancel(slots_[slot]->spec.key.op_seq);
  for (PeerState& peer : peers_) {
    if (!peer.sends.empty() && peer.sends.front().slot == slot) peer.sealed = false;
    std::erase_if(peer.sends, [slot](const PendingSend& s) { return s.slot == slot; });
  }
}

void EventDriver::Collect(int slot) {
  Run& run = *slots_[slot];
  if (!run.live || !(run.executor->done() || run.executor->failed())) return;
  if (run.executor->failed()) Withdraw(slot);
  finished_.push_back({run.spec.key, run.executor->status()});
  run.live = false;
  std::erase(active_, slot);
  std::erase_if(computes_, [slot](const PendingCompute& c) { return c.slot == slot; });
}

std::optional<FinishedRun> EventDriver::TakeFinished() {
  if (finished_.empty()) return std::nullopt;
  FinishedRun run = std::move(finished_.front());
  finished_.pop_front();
  return run;
}

std::optional<ProtocolError> EventDriver::TakeProtocolError() {
  return std::exchange(error_, std::nullopt);
}

std::vector<std::pair<int, Status>> EventDriver::TakeLostPeers() {
  return std::exchange(lost_, {});
}

std::optional<WaitingRun> EventDriver::Waiting() const {
  for (int slot : active_) {
    const Run& run = *slots_[slot];
    const int peer = run.executor->AwaitedPeer();
    if (peer >= 0) return WaitingRun{run.spec.key, run.executor->progress(peer)};
  }
  return std::nullopt;
}

int EventDriver::AwaitedPeer() const {
  const std::optional<WaitingRun> waiting = Waiting();
  return waiting ? waiting->progress.peer : -1;
}

std::string EventDriver::DescribeWaiting() const {
  if (active_.empty()) return {};
  const Run& run = *slots_[active_.front()];
  const int peer = run.executor->AwaitedPeer();
  std::string text =
      fmt::format("slice {} of operation #{}", run.spec.key.slice, run.spec.key.op_seq);
  if (peer >= 0) text += ": " + run.executor->progress(peer).ToString();
  return text;
}

}  // namespace gradwire
