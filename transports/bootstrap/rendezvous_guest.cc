#include "transports/bootstrap/rendezvous_guest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/failpoint.h"

namespace gradwire {
namespace {

int64_t MaxRosterBytes(int world_size) {
  return std::min<int64_t>((world_size + 1) * (kMaxBlobBytes + 4), UINT32_MAX);
}

}  // namespace

RendezvousGuest::RendezvousGuest(RendezvousGuestOptions options)
    : options_(std::move(options)), parts_(MaxRosterBytes(options_.me.world_size)) {
  StatusOr<ControlMessage> hello = MakeHello(options_.me, options_.entropy);
  if (!hello.ok()) {
    Fail(hello.status());
    return;
  }
  hello_ = *hello;
  output_ = EncodeControl(hello_);
}

void RendezvousGuest::OnBytes(ConstBytes bytes, int64_t now_ns) {
  if (liveness_) liveness_->Heard(0, now_ns);
  while (outcome_ == Outcome::kPending) {
    ControlMessage message;
    const StatusOr<bool> complete = reader_.Next(&bytes, &message);
    if (!complete.ok() && phase_ <= Phase::kProof) {
      return Fail(
          Status(gwRemoteError,
                 fmt::format("what answers at {} is not rank 0 of a gradwire job", options_.host),
                 "Another program has this port; choose a different one"));
    }
    if (!complete.ok()) return Fail(complete.status());
    if (!*complete) return;
    OnMessage(message, now_ns);
  }
  if (outcome_ != Outcome::kDone) return;
  unread_ += BytesText(bytes);
}

void RendezvousGuest::OnClosed() {
  if (outcome_ != Outcome::kPending) return;
  if (phase_ <= Phase::kProof) {
    outcome_ = Outcome::kRetry;
    return;
  }
  // It would have said why: it died. What failed here may have failed for that reason, as where
  // others have left.
  std::string what = "rank 0 closed its connection during the start";
  if (!unready_.ok()) what += fmt::format("; {}", unready_.detail().message);
  Fail(Status(gwPeerLost, std::move(what), unready_.detail().hint));
}

void RendezvousGuest::Tick(int64_t now_ns) {
  if (!liveness_ || outcome_ != Outcome::kPending) return;
  const Liveness::Tick tick = liveness_->Advance(now_ns);
  for (const Liveness::Silent& s : tick.silent) {
    Fail(Status(gwPeerLost, fmt::format("rank 0 at {} was lost during the start: silent for {} ms",
                                        options_.host, s.silent_ns / 1'000'000)));
  }
  // Nothing follows READY: what comes after it belongs to the communicator, whose job is another.
  if (!tick.heartbeat_due || phase_ == Phase::kReady) return;
  output_ +=
      EncodeControl({.src = hello_.src, .job = options_.me.job, .fields = HeartbeatFields{}});
}

void RendezvousGuest::Fail(const Status& why) {
  outcome_ = Outcome::kFailed;
  status_ = Status(why).WithRank(options_.me.rank).WithPeer(0);
}

const char* RendezvousGuest::Awaited() const {
  switch (phase_) {
    case Phase::kHello: return "rank 0's hello";
    case Phase::kProof: return "rank 0's proof";
    case Phase::kRoster: return "the roster from rank 0";
    case Phase::kReady: return "rank 0's word that all are ready";
  }
  return "rank 0";
}

void RendezvousGuest::OnMessage(const ControlMessage& message, int64_t now_ns) {
  if (message.get<ByeFields>()) return OnBye(message);
  if (message.get<HeartbeatFields>() && phase_ > Phase::kProof) return;
  switch (phase_) {
    case Phase::kHello:
      if (message.get<HelloFields>()) return OnHello(message);
      break;
    case Phase::kProof:
      if (message.get<ProofFields>()) return OnProof(message, now_ns);
      break;
    case Phase::kRoster:
      if (message.get<RosterFields>()) return OnRoster(message);
      break;
    case Phase::kReady:
      if (!message.get<ReadyFields>()) break;
      outcome_ = Outcome::kDone;
      return;
  }
  Fail(Status(gwRemoteError, fmt::format("unexpected {} from {}, awaited {}", message.TypeName(),
                                         options_.host, Awaited())));
}

void RendezvousGuest::OnHello(const ControlMessage& message) {
  if (message.get<HelloFields>()->rank != 0) {
    return Fail(Status(gwRemoteError, fmt::format("{} does not say it is rank 0", options_.host)));
  }
  PassFailpoint(Failpoint::kHello);
  host_hello_ = message;
  const auto tag = ProofTag(options_.me.secret, ProofRole::kGuest, hello_, host_hello_);
  if (!tag.ok()) return Fail(tag.status());
  const ProofFields proof{.tag = *tag};
  output_ += EncodeControl({.src = hello_.src, .job = options_.me.job, .fields = proof});
  phase_ = Phase::kProof;
}

void RendezvousGuest::OnProof(const ControlMessage& message, int64_t now_ns) {
  const auto* proof = message.get<ProofFields>();
  const auto expected = ProofTag(options_.me.secret, ProofRole::kHost, hello_, host_hello_);
  if (!expected.ok()) return Fail(expected.status());
  if (!SameTag(proof->tag, *expected)) {
    return Fail(Status(gwUnauthenticated,
                       fmt::format("{} does not know this job's secret", options_.host)));
  }
  reader_.AllowBodies();
  liveness_.emplace(options_.liveness, std::vector<int>{0}, now_ns);
  host_deadline_ns_ = now_ns + int64_t{proof->wait_ms} * 1'000'000;
  Status same = JobMismatch(hello_, host_hello_);
  if (same.ok()) same = CompareHellos(hello_, host_hello_);
  if (!same.ok()) return Fail(same);
  output_ += EncodeParts(options_.blob, {.src = hello_.src, .job = options_.me.job});
  phase_ = Phase::kRoster;
}

void RendezvousGuest::OnRoster(const ControlMessage& message) {
  const StatusOr<bool> complete = parts_.Add(message);
  if (!complete.ok()) return Fail(complete.status());
  if (!*complete) return;
  StatusOr<Roster> roster = DecodeRoster(parts_.text(), options_.me.world_size);
  if (!roster.ok()) return Fail(roster.status());
  PassFailpoint(Failpoint::kRoster);
  roster_ = std::move(*roster);
  phase_ = Phase::kReady;
  const Status used = options_.use_roster ? options_.use_roster(roster_) : Status();
  if (used.ok()) {
    output_ += EncodeControl({.src = hello_.src, .job = options_.me.job, .fields = ReadyFields{}});
  } else {
    // Rank 0 tells everybody, us too: it may know of something that failed before.
    unready_ = Unready(used, options_.me.rank);
    output_ += EncodeRefusal(options_.me, unready_, true);
  }
}

void RendezvousGuest::OnBye(const ControlMessage& message) {
  if (phase_ > Phase::kProof) {
    outcome_ = Outcome::kFailed;
    status_ = AsTold(DecodeStatus(message.body), options_.me.rank);
    return;
  }
  // Nobody has proven anything: take the refusal, believe no text.
  Fail(Status(gwUnauthenticated,
              fmt::format("rank 0 at {} does not accept this rank's secret", options_.host),
              "GRADWIRE_SECRET must be the same on all ranks"));
}

}  // namespace gradwire
