#include "transports/bootstrap/rendezvous_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_stream.h"
#include "base/failpoint.h"

namespace gradwire {

RendezvousHost::RendezvousHost(RendezvousHostOptions options, HostWires* wires)
    : options_(std::move(options)),
      wires_(wires),
      conn_of_(options_.me.world_size, -1),
      liveness_(options_.liveness, {}, options_.start_ns) {
  roster_.blobs.resize(options_.me.world_size);
  roster_.blobs[0] = options_.blob;
}

std::optional<int> RendezvousHost::OneTooMany() const {
  auto oldest = guests_.end();
  int strangers = 0;
  for (auto it = guests_.begin(); it != guests_.end(); ++it) {
    if (!IsStranger(it->second)) continue;
    ++strangers;
    if (oldest == guests_.end() || it->second.since_ns < oldest->second.since_ns) oldest = it;
  }
  if (strangers < options_.max_strangers + options_.me.world_size) return std::nullopt;
  return oldest->first;
}

// Else a rank that is some milliseconds away would be pushed out by a flood each time it calls.
int64_t RendezvousHost::ClosedUntilNs() const {
  const std::optional<int> next = OneTooMany();
  return next ? guests_.at(*next).since_ns + kYouthNs : 0;
}

void RendezvousHost::OnConnect(int conn, std::string from, int64_t now_ns) {
  // A rank needs milliseconds for its proof: under a flood the oldest is the least likely to be
  // one, and a rank that is pushed out all the same calls again.
  if (const std::optional<int> oldest = OneTooMany()) Reject(*oldest);
  no_room_.clear();
  Guest& guest = guests_[conn];
  guest.from = std::move(from);
  guest.since_ns = now_ns;
}

void RendezvousHost::OnBytes(int conn, ConstBytes bytes, int64_t now_ns) {
  while (!done_ && guests_.contains(conn)) {
    Guest& guest = guests_.at(conn);
    liveness_.Heard(guest.rank, now_ns);
    ControlMessage message;
    const StatusOr<bool> complete = guest.reader.Next(&bytes, &message);
    if (!complete.ok()) {
      return IsStranger(guest) ? Reject(conn) : Lost(conn, complete.status().detail().message);
    }
    if (!*complete) return;
    OnMessage(conn, message, now_ns);
  }
  const auto it = guests_.find(conn);
  if (it == guests_.end()) return;
  it->second.unread += BytesText(bytes);
}

void RendezvousHost::OnClosed(int conn) {
  const auto it = guests_.find(conn);
  if (it == guests_.end() || done_) return;
  if (!IsStranger(it->second)) return Lost(conn, "it closed its connection");
  // A stranger's end must not be that of the start, whatever rank it said it is.
  NoteUnproven(it->second, "left before it had proven itself");
  Reject(conn);
}

void RendezvousHost::NoteUnproven(const Guest& guest, const std::string& did) {
  if (guest.phase != Phase::kProof) return;
  const uint32_t rank = guest.hello.get<HelloFields>()->rank;
  if (rank < 1 || rank >= static_cast<uint32_t>(options_.me.world_size)) return;
  unproven_[static_cast<int>(rank)] =
      fmt::format("rank {}, or somebody in its name, called from {} and {}", rank, guest.from, did);
}

void RendezvousHost::Reject(int conn) {
  ++rejected_;
  guests_.erase(conn);
  wires_->Close(conn);
}

void RendezvousHost::Refuse(int conn, const Status& why) {
  wires_->Send(conn, EncodeRefusal(options_.me, why, !IsStranger(guests_.at(conn))));
  Reject(conn);
}

void RendezvousHost::OnMessage(int conn, const ControlMessage& message, int64_t now_ns) {
  Guest& guest = guests_.at(conn);
  if (message.get<HeartbeatFields>() && !IsStranger(guest)) return;
  switch (guest.phase) {
    case Phase::kHello: return message.get<HelloFields>() ? OnHello(conn, message) : Reject(conn);
    case Phase::kProof:
      return message.get<ProofFields>() ? OnProof(conn, message, now_ns) : Reject(conn);
    case Phase::kBlob:
      if (message.get<RosterFields>()) return OnBlob(conn, message);
      break;
    case Phase::kJoined:
      if (message.get<ReadyFields>() && All(Phase::kJoined)) return OnReady(conn);
      if (message.get<ByeFields>()) return Fail(AsTold(DecodeStatus(message.body), 0));
      break;
    case Phase::kReady: break;
  }
  Lost(conn, fmt::format("unexpected {}", message.TypeName()));
}

void RendezvousHost::OnHello(int conn, const ControlMessage& message) {
  Guest& guest = guests_.at(conn);
  StatusOr<ControlMessage> mine = MakeHello(options_.me, options_.entropy);
  if (!mine.ok()) return Fail(mine.status());
  guest.hello = message;
  guest.host_hello = *mine;
  guest.phase = Phase::kProof;
  wires_->Send(conn, EncodeControl(*mine));
  PassFailpoint(Failpoint::kHello);
}

void RendezvousHost::OnProof(int conn, const ControlMessage& message, int64_t now_ns) {
  Guest& guest = guests_.at(conn);
  const std::string& secret = options_.me.secret;
  const auto expected = ProofTag(secret, ProofRole::kGuest, guest.hello, guest.host_hello);
  const auto mine = ProofTag(secret, ProofRole::kHost, guest.hello, guest.host_hello);
  if (!expected.ok() || !mine.ok()) return Fail(expected.ok() ? mine.status() : expected.status());
  if (!SameTag(message.get<ProofFields>()->tag, *expected)) {
    NoteUnproven(guest, "did not know this job's secret");
    return Refuse(conn, Status(gwUnauthenticated, "wrong secret"));
  }
  const int64_t wait_ns = std::max<int64_t>(options_.start_ns + options_.timeout_ns - now_ns, 0);
  const ProofFields proof{
      .tag = *mine,
      .wait_ms = static_cast<uint32_t>(std::min<int64_t>(wait_ns / 1'000'000, UINT32_MAX))};
  wires_->Send(conn, EncodeControl({.dst = message.src, .job = options_.me.job, .fields = proof}));
  guest.reader.AllowBodies();
  guest.phase = Phase::kBlob;
  Admit(conn, now_ns);
}

void RendezvousHost::Admit(int conn, int64_t now_ns) {
  if (!status_.ok()) return Tell(conn);
  Guest& guest = guests_.at(conn);
  if (const Status job = JobMismatch(guest.host_hello, guest.hello); !job.ok()) {
    return Refuse(conn, job);
  }
  // From here on it is one of us, and a difference is everybody's error.
  const Status same = CompareHellos(guest.host_hello, guest.hello);
  if (!same.ok()) return Fail(same);
  const uint32_t rank = guest.hello.get<HelloFields>()->rank;
  if (rank < 1 || rank >= static_cast<uint32_t>(options_.me.world_size)) {
    return Fail(Status(
        gwMismatch,
        ErrorDetail{.message = fmt::format("a rank from {} has a number out of range", guest.from),
                    .rank = 0,
                    .field = "rank",
                    .expected = fmt::format("1 to {} (expected)", options_.me.world_size - 1),
                    .actual = fmt::format("{} (of that rank)", rank)}));
  }
  if (conn_of_[rank] >= 0) {
    const std::string& first = guests_.at(conn_of_[rank]).from;
    return Refuse(conn,
                  Status(gwInvalidUsage,
                         ErrorDetail{.message = fmt::format("rank {} has joined from {} already; "
                                                            "a second one called from {}",
                                                            rank, first, guest.from),
                                     .hint = "Give every process a rank of its own",
                                     .rank = static_cast<int>(rank),
                                     .peer = 0}));
  }
  guest.rank = static_cast<int>(rank);
  conn_of_[rank] = conn;
  liveness_.Watch(guest.rank, now_ns);
}

void RendezvousHost::OnBlob(int conn, const ControlMessage& message) {
  Guest& guest = guests_.at(conn);
  const StatusOr<bool> complete = guest.blob.Add(message);
  if (!complete.ok()) return Lost(conn, complete.status().detail().message);
  if (!*complete) return;
  guest.phase = Phase::kJoined;
  roster_.blobs[guest.rank] = guest.blob.text();
  if (All(Phase::kJoined)) SendRoster();
}

bool RendezvousHost::All(Phase phase) const {
  return std::all_of(conn_of_.begin() + 1, conn_of_.end(),
                     [&](int conn) { return conn >= 0 && guests_.at(conn).phase >= phase; });
}

void RendezvousHost::SendRoster() {
  if (options_.choose_settings) {
    StatusOr<std::string> settings = options_.choose_settings(roster_.blobs);
    if (!settings.ok()) return Fail(settings.status());
    roster_.settings = std::move(*settings);
  }
  const std::string wire =
      EncodeParts(EncodeRoster(roster_), {.dst = kAllRanks, .job = options_.me.job});
  for (int r = 1; r < options_.me.world_size; ++r) wires_->Send(conn_of_[r], wire);
  PassFailpoint(Failpoint::kRoster);
}

void RendezvousHost::OnReady(int conn) {
  Guest& guest = guests_.at(conn);
  guest.phase = Phase::kReady;
  // Its last word: what it sends next belongs to the communicator.
  liveness_.Forget(guest.rank);
  if (!All(Phase::kReady)) return;
  const Status used = options_.use_roster ? options_.use_roster(roster_) : Status();
  if (!used.ok()) return Fail(Unready(used, 0));
  const std::string wire =
      EncodeControl({.dst = kAllRanks, .job = options_.me.job, .fields = ReadyFields{}});
  for (int r = 1; r < options_.me.world_size; ++r) wires_->Send(conn_of_[r], wire);
  done_ = true;
  for (auto it = guests_.begin(); it != guests_.end();) {
    const auto here = it++;
    if (here->second.rank < 0) Reject(here->first);
  }
}

void RendezvousHost::Lost(int conn, const std::string& how) {
  const Guest& guest = guests_.at(conn);
  const int rank = guest.rank;
  const std::string text =
      fmt::format("rank {} at {} was lost during the start: {}", rank, guest.from, how);
  guests_.erase(conn);
  if (rank >= 0) conn_of_[rank] = -1;
  liveness_.Forget(rank);
  ++told_;
  wires_->Close(conn);
  Fail(Status(gwPeerLost, ErrorDetail{.message = text, .rank = 0, .peer = rank}));
}

// The connection is forgotten with it.
void RendezvousHost::Tell(int conn) {
  ++told_;
  wires_->Send(conn, EncodeRefusal(options_.me, status_, true));
  wires_->Close(conn);
  guests_.erase(conn);
  done_ = done_ || told_ >= options_.me.world_size - 1;
}

void RendezvousHost::Fail(const Status& why) {
  if (done_ || !status_.ok()) return;
  status_ = why;
  for (auto it = guests_.begin(); it != guests_.end();) {
    const auto here = it++;
    if (!IsStranger(here->second)) Tell(here->first);
  }
  done_ = told_ >= options_.me.world_size - 1;
}

Status RendezvousHost::Late() const {
  std::vector<int> missing;
  for (int r = 1; r < options_.me.world_size; ++r) {
    if (conn_of_[r] < 0) missing.push_back(r);
  }
  const bool joined = missing.empty();
  for (int r = 1; joined && r < options_.me.world_size; ++r) {
    if (guests_.at(conn_of_[r]).phase != Phase::kReady) missing.push_back(r);
  }
  ErrorDetail detail{
      .message = fmt::format("rank{} {} of {} did not {} within {} s",
                             missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                             options_.me.world_size, joined ? "confirm the roster" : "join",
                             static_cast<double>(options_.timeout_ns) / 1e9),
      .hint = "Look at the output of the missing ranks; GRADWIRE_INIT_TIMEOUT_MS sets the bound",
      .rank = 0};
  if (!joined && !no_room_.empty()) {
    detail.message += fmt::format(", and rank 0 could not take connections: {}", no_room_);
    detail.hint =
        "Give rank 0 room: open files by ulimit -n, those of its machine by fs.file-max, or memory";
    return Status(gwSystemError, std::move(detail));
  }
  if (!joined) detail.message += UnprovenAmong(missing);
  if (missing.size() == 1) detail.peer = missing[0];
  return Status(gwTimeout, std::move(detail));
}

std::string RendezvousHost::UnprovenAmong(const std::vector<int>& ranks) const {
  constexpr int kMost = 4;  // what is told is cut somewhere
  std::string text;
  int left = kMost;
  for (const int rank : ranks) {
    const auto note = unproven_.find(rank);
    if (note == unproven_.end() || left-- <= 0) continue;
    text += fmt::format("; {}", note->second);
  }
  return text;
}

void RendezvousHost::CheckLiveness(int64_t now_ns) {
  const Liveness::Tick tick = liveness_.Advance(now_ns);
  for (const Liveness::Silent& s : tick.silent) {
    if (!status_.ok()) return;
    Lost(conn_of_[s.peer], fmt::format("silent for {} ms", s.silent_ns / 1'000'000));
  }
  if (!tick.heartbeat_due || !status_.ok()) return;
  const std::string wire =
      EncodeControl({.dst = kAllRanks, .job = options_.me.job, .fields = HeartbeatFields{}});
  for (int r = 1; r < options_.me.world_size; ++r) {
    if (conn_of_[r] >= 0) wires_->Send(conn_of_[r], wire);
  }
}

void RendezvousHost::Tick(int64_t now_ns) {
  if (done_) return;
  CheckLiveness(now_ns);
  if (!status_.ok() && linger_until_ns_ == 0) linger_until_ns_ = now_ns + options_.linger_ns;
  if (!status_.ok() && now_ns >= linger_until_ns_) done_ = true;
  if (status_.ok() && now_ns >= options_.start_ns + options_.timeout_ns) Fail(Late());
  for (auto it = guests_.begin(); it != guests_.end();) {
    const auto here = it++;
    const bool late = now_ns - here->second.since_ns >= options_.hello_timeout_ns;
    if (!IsStranger(here->second) || !late) continue;
    NoteUnproven(here->second, fmt::format("had not proven itself after {} s",
                                           static_cast<double>(options_.hello_timeout_ns) / 1e9));
    Reject(here->first);
  }
}

int64_t RendezvousHost::NextNs() const {
  int64_t next = linger_until_ns_;
  if (status_.ok()) next = std::min(options_.start_ns + options_.timeout_ns, liveness_.NextNs());
  for (const auto& [conn, guest] : guests_) {
    if (IsStranger(guest)) next = std::min(next, guest.since_ns + options_.hello_timeout_ns);
  }
  return next;
}

}  // namespace gradwire
