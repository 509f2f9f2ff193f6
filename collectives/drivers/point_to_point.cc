#include "collectives/drivers/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error_code.h"
#include "base/keep_forever.h"
#include "base/log.h"
#include "base/wrapping.h"

namespace gradwire {
namespace {

// Receives from one peer that are announced at a time: the peer keeps a READY for each until it
// sends.
constexpr int kAnnounced = 16;
// READYs before their send is called. A correct peer stays below.
constexpr size_t kMostReady = 4 * kAnnounced;

const char* NameOf(Transfer::Kind kind) {
  return kind == Transfer::Kind::kSend ? "send" : "receive";
}
const char* OtherOf(Transfer::Kind kind) {
  return kind == Transfer::Kind::kSend ? "receive" : "send";
}

std::string TypeText(uint32_t dtype) {
  const std::optional<DType> known = DTypeFromInt(static_cast<int>(dtype));
  return known ? std::string(Name(*known)) : fmt::format("type {}", dtype);
}

Status Broken(int peer, const char* what) {
  return Status(gwDataCorrupt, fmt::format("rank {} sent {}", peer, what)).WithPeer(peer);
}

}  // namespace

PointToPoint::PointToPoint(Transport* transport, const Clock* clock, const Options& options)
    : transport_(transport),
      clock_(clock),
      options_(options),
      peers_(options.world_size),
      pause_(options.pause_ns) {}

// The transport may still read what is in flight.
PointToPoint::~PointToPoint() {
  if (Quiet()) return;
  GW_LOG(kWarn, kNet,
         "{} fragments of messages are never freed: the transport has not let go of them",
         flights_.size());
  KeepForever(std::make_shared<std::map<SendToken, Flight>>(std::move(flights_)));
}

// ---- calls ----

void PointToPoint::End(Transfer* transfer, Status status, TransferListener* listener) {
  if (!status.ok()) {
    transfer->status = std::move(status).WithOp(NameOf(transfer->kind)).WithPeer(transfer->peer);
  }
  if (listener != nullptr) listener->OnTransferEnd(*transfer);
  transfer->done.store(true, std::memory_order_release);
}

void PointToPoint::Post(std::shared_ptr<Transfer> transfer) {
  const int peer = transfer->peer;
  const bool is_send = transfer->kind == Transfer::Kind::kSend;
  Lane& lane = LaneOf(peers_[peer], transfer->kind);
  if (lane.calls.empty()) lane.moved_ns = clock_->NowNs();
  const CallPtr call = std::make_shared<Call>();
  call->transfer = std::move(transfer);
  call->number = lane.next++;
  lane.calls.push_back(call);
  ++open_;
  if (!is_send) return Announce(peer);
  Peer& from = peers_[peer];
  if (from.given_up) {
    const auto [last, words] = *from.given_up;
    if (!IsBefore(last, call->number))
      return Finish(peer, call, GivenUp(*call->transfer, words.code));
    from.given_up.reset();
  }
  const auto ready = from.ready.extract(call->number);
  if (!ready.empty()) HearReady(peer, call, ready.mapped());
}

PointToPoint::CallPtr PointToPoint::Find(const Lane& lane, uint32_t number) {
  auto it = std::find_if(lane.calls.begin(), lane.calls.end(),
                         [&](const CallPtr& call) { return call->number == number; });
  return it == lane.calls.end() ? nullptr : *it;
}

uint32_t PointToPoint::Messages(const Transfer& transfer) const {
  const int64_t size = options_.max_message_bytes;
  return static_cast<uint32_t>(std::max<int64_t>((transfer.bytes() + size - 1) / size, 1));
}

int64_t PointToPoint::MessageBytes(const Transfer& transfer, uint32_t message) const {
  return std::min(transfer.bytes() - message * options_.max_message_bytes,
                  options_.max_message_bytes);
}

void PointToPoint::Moved(int peer, Transfer::Kind kind) {
  LaneOf(peers_[peer], kind).moved_ns = clock_->NowNs();
}

// A send is complete when the transport has taken all of it along.
void PointToPoint::FinishIfOver(int peer, const CallPtr& call) {
  const bool is_done = call->transfer->done.load(std::memory_order_relaxed);
  if (!is_done && call->in_flight == 0 && call->moved_all) Finish(peer, call, Status());
}

void PointToPoint::Finish(int peer, const CallPtr& call, Status status) {
  const Transfer::Kind kind = call->transfer->kind;
  std::erase(LaneOf(peers_[peer], kind).calls, call);
  --open_;
  Moved(peer, kind);
  End(call->transfer.get(), std::move(status).WithRank(options_.rank), options_.listener);
  if (kind == Transfer::Kind::kRecv) Announce(peer);
}

// ---- failures ----

Status PointToPoint::Mismatch(const Transfer& mine, const Words& theirs) const {
  const bool counts_differ = static_cast<uint64_t>(mine.count) != theirs.count;
  const std::string my_value =
      counts_differ ? fmt::format("{}", mine.count) : TypeText(static_cast<uint32_t>(mine.dtype));
  const std::string their_value =
      counts_differ ? fmt::format("{}", theirs.count) : TypeText(theirs.dtype);
  return Status(gwMismatch, {.message = fmt::format("the {} of rank {} is of something else",
                                                    OtherOf(mine.kind), mine.peer),
                             .hint = "A send and its receive must have the same count and type",
                             .peer = mine.peer,
                             .field = counts_differ ? "count" : "datatype",
                             .expected = fmt::format("{} (rank {})", my_value, options_.rank),
                             .actual = fmt::format("{} (rank {})", their_value, mine.peer)});
}

Status PointToPoint::GivenUp(const Transfer& mine, int32_t code) {
  const auto why = IsErrorCode(code) ? static_cast<gwResult_t>(code) : gwRemoteError;
  return Status(gwRemoteError,
                {.message = fmt::format("rank {} has given up the {} of it: {}", mine.peer,
                                        OtherOf(mine.kind), ResultText(why)),
                 .hint = "Look at the error of that rank",
                 .peer = mine.peer});
}

// All at once: none of them is announced because another one has ended.
void PointToPoint::EndLane(int peer, Transfer::Kind kind, const Status& why) {
  for (const CallPtr& call : std::exchange(LaneOf(peers_[peer], kind).calls, {}))
    Finish(peer, call, why);
}

void PointToPoint::FailPeer(int peer, const Status& why) {
  EndLane(peer, Transfer::Kind::kSend, why);
  EndLane(peer, Transfer::Kind::kRecv, why);
  DropFrames(peer);
}

void PointToPoint::DropFrames(int peer) {
  unsent_ -= static_cast<int64_t>(std::exchange(peers_[peer].frames, {}).size());
}

void PointToPoint::FailAll(const Status& why) {
  for (int peer = 0; peer < options_.world_size; ++peer) FailPeer(peer, why);
}

// The receiver of a send that has not begun is told when it comes.
void PointToPoint::GiveUpLane(int peer, Transfer::Kind kind, const Status& why) {
  const Lane& lane = LaneOf(peers_[peer], kind);
  if (kind == Transfer::Kind::kSend) {
    for (const CallPtr& call : lane.calls) {
      if (call->is_ready) Say(peer, {kRefused, call->number, WordsOf(*call->transfer, why.code())});
    }
  } else if (!lane.calls.empty()) {
    const Call& last = *lane.calls.back();
    Say(peer, {kGivenUp, last.number, WordsOf(*last.transfer, why.code())});
  }
  EndLane(peer, kind, why);
}

// A READY may have been what was damaged, of a send that is called later: only the peer knows.
void PointToPoint::OnDamage(int peer, const Status& why) {
  EndLane(peer, Transfer::Kind::kSend, why);
  const std::deque<Frame>& said = peers_[peer].frames;
  if (said.empty() || said.back().message != kDamaged)
    Say(peer, {kDamaged, 0, {.code = why.code()}});
  GiveUpLane(peer, Transfer::Kind::kRecv, why);
}

int64_t PointToPoint::StillNs(int peer) const {
  const Peer& to = peers_[peer];
  int64_t since_ns = INT64_MAX;
  for (const Lane* lane : {&to.sends, &to.recvs}) {
    if (!lane->calls.empty()) since_ns = std::min(since_ns, lane->moved_ns);
  }
  if (!to.frames.empty()) since_ns = std::min(since_ns, to.frames_ns);
  return since_ns == INT64_MAX ? 0 : clock_->NowNs() - since_ns;
}

// Perhaps the others have stood still as well.
void PointToPoint::RestartTimes(int64_t now_ns) {
  for (Peer& peer : peers_) {
    peer.sends.moved_ns = peer.recvs.moved_ns = peer.frames_ns = now_ns;
    for (Frame& frame : peer.frames) frame.said_ns = now_ns;
  }
}

void PointToPoint::CheckTimes() {
  const int64_t now_ns = clock_->NowNs();
  if (pause_.HasPaused(now_ns)) RestartTimes(now_ns);
  if (options_.timeout_ns <= 0) return;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    CheckLane(peer, Transfer::Kind::kSend, now_ns);
    CheckLane(peer, Transfer::Kind::kRecv, now_ns);
    Peer& to = peers_[peer];
    if (now_ns - to.frames_ns <= options_.timeout_ns) continue;
    // A READY has the time of its call.
    unsent_ -= static_cast<int64_t>(std::erase_if(to.frames, [&](const Frame& frame) {
      return frame.message != kReady || now_ns - frame.said_ns > options_.timeout_ns;
    }));
  }
}

void PointToPoint::CheckLane(int peer, Transfer::Kind kind, int64_t now_ns) {
  const Lane& lane = LaneOf(peers_[peer], kind);
  if (lane.calls.empty()) return;
  const int64_t still_ns = now_ns - lane.moved_ns;
  if (still_ns <= options_.timeout_ns) return;
  GiveUpLane(
      peer, kind,
      Status(gwTimeout, {.message = fmt::format("rank {} has not moved its {} for {} ms", peer,
                                                OtherOf(kind), still_ns / kNsPerMs),
                         .hint = "Look at what that rank does, or raise GRADWIRE_OP_TIMEOUT_MS",
                         .peer = peer}));
}

// ---- what is said ----

PointToPoint::Words PointToPoint::WordsOf(const Transfer& transfer, gwResult_t code) {
  return {static_cast<uint64_t>(transfer.count), static_cast<uint32_t>(transfer.dtype), code};
}

void PointToPoint::Say(int peer, const Frame& frame) {
  Peer& to = peers_[peer];
  const int64_t now_ns = clock_->NowNs();
  if (to.frames.empty()) to.frames_ns = now_ns;
  to.frames.push_back(frame);
  to.frames.back().said_ns = now_ns;
  ++unsent_;
}

void PointToPoint::Announce(int peer) {
  int announced = 0;
  for (const CallPtr& call : peers_[peer].recvs.calls) {
    if (++announced > kAnnounced) return;
    if (std::exchange(call->is_ready, true)) continue;
    Say(peer, {kReady, call->number, WordsOf(*call->transfer, gwSuccess)});
  }
}

// The receiver waits for a send that is called.
void PointToPoint::HearReady(int peer, const CallPtr& send, const Words& words) {
  const Transfer& mine = *send->transfer;
  if (words.count != static_cast<uint64_t>(mine.count) ||
      words.dtype != static_cast<uint32_t>(mine.dtype)) {
    Say(peer, {kRefused, send->number, WordsOf(mine, gwMismatch)});
    return Finish(peer, send, Mismatch(mine, words));
  }
  send->is_ready = true;
  Moved(peer, Transfer::Kind::kSend);
}

// ---- what is heard ----

void PointToPoint::OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) {
  const Status heard =
      header.message == kData ? OnData(peer, header, fragment) : OnWords(peer, header, fragment);
  if (!heard.ok()) OnDamage(peer, heard);
}

Status PointToPoint::OnWords(int peer, const FrameHeader& header, ConstBytes fragment) {
  Words words;
  if (fragment.size != sizeof words) return Broken(peer, "a message of impossible size");
  std::memcpy(&words, fragment.data, sizeof words);
  switch (header.message) {
    case kReady: return OnReady(peer, header.op_seq, words);
    case kGivenUp: return OnGivenUp(peer, header.op_seq, words);
    case kRefused: return OnRefused(peer, header.op_seq, words);
    case kDamaged: return OnDamaged(peer, words);
    default: return Broken(peer, "a message of no kind there is");
  }
}

Status PointToPoint::OnReady(int peer, uint32_t number, const Words& words) {
  Peer& from = peers_[peer];
  if (const CallPtr send = Find(from.sends, number)) {
    if (send->is_ready) return Broken(peer, "that it is ready, twice");
    HearReady(peer, send, words);
    return Status();
  }
  if (IsBefore(number, from.sends.next)) {
    Say(peer, {kRefused, number, {.code = gwTimeout}});
    return Status();
  }
  // What gives it up has overtaken it.
  if (from.given_up && !IsBefore(from.given_up->first, number)) return Status();
  if (from.ready.size() >= kMostReady) return Broken(peer, "more receives ahead than any may be");
  from.ready.try_emplace(number, words);
  return Status();
}

Status PointToPoint::OnGivenUp(int peer, uint32_t number, const Words& words) {
  Peer& from = peers_[peer];
  const auto is_meant = [&](uint32_t call) { return !IsBefore(number, call); };
  const std::deque<CallPtr> sends = from.sends.calls;
  for (const CallPtr& send : sends) {
    if (is_meant(send->number) && !send->moved_all)
      Finish(peer, send, GivenUp(*send->transfer, words.code));
  }
  if (IsBefore(number, from.sends.next)) return Status();
  std::erase_if(from.ready, [&](const auto& ready) { return is_meant(ready.first); });
  // An older word may come last.
  if (!from.given_up || IsBefore(from.given_up->first, number)) from.given_up = {number, words};
  return Status();
}

Status PointToPoint::OnRefused(int peer, uint32_t number, const Words& words) {
  const CallPtr recv = Find(peers_[peer].recvs, number);
  if (recv == nullptr) return Status();  // it was given up here
  const Transfer& mine = *recv->transfer;
  Finish(peer, recv, words.code == gwMismatch ? Mismatch(mine, words) : GivenUp(mine, words.code));
  return Status();
}

// All receives so far are given up, those too that the peer has not heard of.
Status PointToPoint::OnDamaged(int peer, const Words& words) {
  Lane& lane = peers_[peer].recvs;
  if (lane.next == 0) return Status();
  Say(peer, {kGivenUp, lane.next - 1, {.code = words.code}});
  for (const CallPtr& call : std::exchange(lane.calls, {}))
    Finish(peer, call, GivenUp(*call->transfer, words.code));
  return Status();
}

Status PointToPoint::OnData(int peer, const FrameHeader& header, ConstBytes fragment) {
  Lane& lane = peers_[peer].recvs;
  const CallPtr recv = Find(lane, header.op_seq);
  const bool is_known = recv != nullptr && recv->is_ready;
  if (!is_known && !IsBefore(header.op_seq, lane.next))
    return Broken(peer, "data that nobody asked for");
  if (!is_known) return Status();  // what was given up still comes
  Transfer& mine = *recv->transfer;
  recv->arrived.resize(Messages(mine));
  if (header.slice >= recv->arrived.size() ||
      header.message_bytes != MessageBytes(mine, header.slice) ||
      header.offset != recv->arrived[header.slice]) {
    return Broken(peer, "data out of place");
  }
  if (fragment.size > 0) {
    std::memcpy(mine.memory + header.slice * options_.max_message_bytes + header.offset,
                fragment.data, fragment.size);
  }
  recv->arrived[header.slice] += fragment.size;
  recv->moved_bytes += fragment.size;
  recv->moved_all = recv->moved_bytes == mine.bytes();
  Moved(peer, Transfer::Kind::kRecv);
  FinishIfOver(peer, recv);
  return Status();
}

// ---- what is sent ----

bool PointToPoint::Poll() {
  if (idle()) return false;
  bool moved = false;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    while (OfferNext(peer)) moved = true;
  }
  return moved;
}

bool PointToPoint::OfferNext(int peer) {
  if (peers_[peer].in_flight >= transport_->caps().fragments_in_flight) return false;
  return peers_[peer].frames.empty() ? OfferData(peer) : OfferFrame(peer);
}

FrameHeader PointToPoint::Sealed(FrameHeader header, ConstBytes fragment) const {
  header.flags = static_cast<uint16_t>(kFramePointToPoint |
                                       (transport_->caps().within_host ? kFrameNoFragmentCrc : 0));
  header.src = static_cast<uint16_t>(options_.rank);
  header.epoch = options_.epoch;
  header.job = options_.job;
  header.fragment_bytes = static_cast<uint32_t>(fragment.size);
  SealFrame(&header, fragment);
  return header;
}

SendOutcome PointToPoint::Offer(int peer, const FrameHeader& header, Flight flight) {
  const SendToken token = next_token_++ | kTokenBit;
  // In its place before the call: the transport may read the fragment there until OnSent.
  Flight& mine = flights_.insert_or_assign(token, std::move(flight)).first->second;
  const CallPtr call = mine.call;
  const ConstBytes fragment = mine.fragment();
  const SendOutcome outcome = transport_->TrySend(peer, header, fragment, token);
  if (outcome != SendOutcome::kAccepted) {
    if (call != nullptr) call->next = std::move(mine.data);
    flights_.erase(token);
    return outcome;
  }
  if (call != nullptr) ++call->in_flight;
  ++peers_[peer].in_flight;
  counters_.sent_bytes += fragment.size + static_cast<int64_t>(sizeof header);
  ++counters_.sent_frames;
  return outcome;
}

bool PointToPoint::OfferFrame(int peer) {
  std::deque<Frame>& frames = peers_[peer].frames;
  const Frame& frame = frames.front();
  const Flight flight = {peer, nullptr, frame.words, {}};
  const FrameHeader header =
      Sealed({.op_seq = frame.number, .message = frame.message, .message_bytes = sizeof(Words)},
             flight.fragment());
  if (Offer(peer, header, flight) == SendOutcome::kFull) return false;
  // To a peer that is lost nothing is to be said any more.
  frames.pop_front();
  peers_[peer].frames_ns = clock_->NowNs();
  --unsent_;
  return true;
}

PointToPoint::CallPtr PointToPoint::NextToSend(int peer) const {
  for (const CallPtr& call : peers_[peer].sends.calls) {
    if (call->is_ready && !call->moved_all) return call;
  }
  return nullptr;
}

bool PointToPoint::OfferData(int peer) {
  const CallPtr send = NextToSend(peer);
  if (send == nullptr) return false;
  const Transfer& mine = *send->transfer;
  const int64_t message_bytes = MessageBytes(mine, send->message);
  const int64_t offset = send->moved_bytes - send->message * options_.max_message_bytes;
  const int64_t bytes =
      std::min<int64_t>(message_bytes - offset, transport_->caps().max_fragment_bytes);
  // Only once: a transport that is full is asked again at every poll.
  if (send->next.empty()) {
    const ConstBytes fragment = {mine.memory + send->moved_bytes, bytes};
    send->next.assign(fragment.data, fragment.data + bytes);
    send->header = Sealed({.op_seq = send->number,
                           .slice = send->message,
                           .message = kData,
                           .offset = static_cast<uint32_t>(offset),
                           .message_bytes = static_cast<uint32_t>(message_bytes)},
                          fragment);
  }
  const SendOutcome outcome =
      Offer(peer, send->header, {peer, send, {}, std::exchange(send->next, {})});
  if (outcome != SendOutcome::kAccepted) return false;
  send->moved_bytes += bytes;
  if (offset + bytes == message_bytes) ++send->message;
  send->moved_all = send->message == Messages(mine);
  FinishIfOver(peer, send);
  return true;
}

void PointToPoint::OnSent(SendToken token) {
  const auto flight = flights_.extract(token);
  if (flight.empty()) return;
  const auto& [peer, call, words, data] = flight.mapped();
  --peers_[peer].in_flight;
  if (call == nullptr) return;
  --call->in_flight;
  Moved(peer, Transfer::Kind::kSend);
  FinishIfOver(peer, call);
}

}  // namespace gradwire
