// RendezvousGuest: the side of every rank but 0, for one connection, without sockets or a clock.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_GUEST_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_GUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/view.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/rendezvous.h"
#include "transports/bootstrap/roster.h"
#include "transports/control/liveness.h"
#include "transports/control/message.h"

namespace gradwire {

struct RendezvousGuestOptions {
  RendezvousIdentity me;
  std::string blob;
  UseRoster use_roster;
  Entropy entropy = SystemEntropy;
  std::string host;          // rank 0's address, for error texts
  LivenessOptions liveness;  // of rank 0, once it has proven itself
};

class RendezvousGuest {
 public:
  enum class Outcome {
    kPending,
    kDone,
    kRetry,   // closed before rank 0 had proven itself: call again (it was busy, or somebody else's
              // port)
    kFailed,  // status() says why; calling again would not help
  };

  // The connection stands; HELLO is in the output.
  explicit RendezvousGuest(RendezvousGuestOptions options);

  void OnBytes(ConstBytes bytes, int64_t now_ns);
  void OnClosed();
  // At NextNs at the latest.
  void Tick(int64_t now_ns);
  int64_t NextNs() const { return liveness_ ? liveness_->NextNs() : INT64_MAX; }

  // What is to be sent; empties it.
  std::string TakeOutput() { return std::exchange(output_, {}); }

  Outcome outcome() const { return outcome_; }
  const Status& status() const { return status_; }
  // Until when rank 0 waits for missing ranks, as it said itself; 0 as long as it has not.
  int64_t host_deadline_ns() const { return host_deadline_ns_; }
  // What is awaited, for the error text of a time-out: "rank 0's hello", ...
  const char* Awaited() const;

  // After success.
  const Roster& roster() const { return roster_; }
  MessageReader reader() const { return reader_; }
  std::string unread() const { return unread_; }

 private:
  enum class Phase { kHello, kProof, kRoster, kReady };

  void Fail(const Status& why);
  void OnMessage(const ControlMessage& message, int64_t now_ns);
  void OnHello(const ControlMessage& message);
  void OnProof(const ControlMessage& message, int64_t now_ns);
  void OnRoster(const ControlMessage& message);
  void OnBye(const ControlMessage& message);

  RendezvousGuestOptions options_;
  Phase phase_ = Phase::kHello;
  MessageReader reader_;
  ControlMessage hello_, host_hello_;
  PartAssembler parts_;
  Roster roster_;
  Status unready_;  // what use_roster said
  std::string output_, unread_;
  int64_t host_deadline_ns_ = 0;
  std::optional<Liveness> liveness_;
  Outcome outcome_ = Outcome::kPending;
  Status status_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_GUEST_H_
