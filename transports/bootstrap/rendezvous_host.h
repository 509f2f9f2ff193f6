// RendezvousHost: rank 0's side of the start, as a state machine without sockets or a clock.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_HOST_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_HOST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/rendezvous.h"
#include "transports/bootstrap/roster.h"
#include "transports/control/liveness.h"
#include "transports/control/message.h"

namespace gradwire {

// Rank 0 sees all blobs and decides what holds for everybody; an error fails the start on all
// ranks.
using ChooseSettings = std::function<StatusOr<std::string>(const std::vector<std::string>& blobs)>;

struct RendezvousHostOptions {
  RendezvousIdentity me;
  std::string blob;
  ChooseSettings choose_settings;  // empty: no settings
  UseRoster use_roster;            // empty: nothing to do
  Entropy entropy = SystemEntropy;
  int64_t start_ns = 0;
  int64_t timeout_ns = 60'000'000'000;  // for all ranks to be there
  int64_t hello_timeout_ns = 5'000'000'000;
  LivenessOptions liveness;         // of ranks that have proven themselves and not said READY
  int64_t linger_ns = 500'000'000;  // after a failure, to tell ranks that call only now
  // Connections without proof, besides one for each rank: all ranks may call at once. One more
  // pushes the oldest out, see ClosedUntilNs.
  int max_strangers = 64;
};

// What the state machine does to its connections.
class HostWires {
 public:
  virtual ~HostWires() = default;
  virtual void Send(int conn, std::string bytes) = 0;
  // After what was sent has gone out; nothing more is reported about `conn`.
  virtual void Close(int conn) = 0;
};

class RendezvousHost {
 public:
  // `wires` must outlive this.
  RendezvousHost(RendezvousHostOptions options, HostWires* wires);

  // A stranger is given so long to prove itself before another one may push it out.
  static constexpr int64_t kYouthNs = 100'000'000;
  // Until then nobody is to be let in who knocks; 0: everybody is.
  int64_t ClosedUntilNs() const;
  // `conn` is any number that is not in use; `from` is for error texts.
  void OnConnect(int conn, std::string from, int64_t now_ns);
  void OnBytes(int conn, ConstBytes bytes, int64_t now_ns);
  void OnClosed(int conn);
  // At NextNs at the latest.
  void Tick(int64_t now_ns);
  int64_t NextNs() const;
  // A rank calls and rank 0 cannot take the connection; who is missing then need not be at fault.
  void NoteNoRoom(std::string why) { no_room_ = std::move(why); }
  // Ends the start with `why`, which all ranks that have joined are told, and those that call while
  // it lingers.
  void Fail(const Status& why);

  bool done() const { return done_; }  // one way or the other, and everybody was told who could be
  const Status& status() const { return status_; }
  // Connections that never proved anything, or belonged to another job.
  int64_t rejected() const { return rejected_; }

  // After success.
  const Roster& roster() const { return roster_; }
  int conn_of(int rank) const { return conn_of_[rank]; }
  MessageReader reader_of(int rank) const { return guests_.at(conn_of_[rank]).reader; }
  std::string unread_of(int rank) const { return guests_.at(conn_of_[rank]).unread; }

 private:
  enum class Phase { kHello, kProof, kBlob, kJoined, kReady };
  struct Guest {
    std::string from;
    int64_t since_ns = 0;
    Phase phase = Phase::kHello;
    int rank = -1;  // once proven
    MessageReader reader;
    ControlMessage hello, host_hello;
    PartAssembler blob{kMaxBlobBytes};
    std::string unread;  // after the end of the start
  };

  bool IsStranger(const Guest& g) const { return g.phase <= Phase::kProof; }
  // The oldest stranger, if another one would be too many.
  std::optional<int> OneTooMany() const;
  // Somebody said hello as a rank, proved nothing, and `did` what is told.
  void NoteUnproven(const Guest& guest, const std::string& did);
  // Both forget the connection.
  void Reject(int conn);
  void Refuse(int conn, const Status& why);

  void OnMessage(int conn, const ControlMessage& message, int64_t now_ns);
  void OnHello(int conn, const ControlMessage& message);
  void OnProof(int conn, const ControlMessage& message, int64_t now_ns);
  void Admit(int conn, int64_t now_ns);
  void OnBlob(int conn, const ControlMessage& message);
  void OnReady(int conn);
  void CheckLiveness(int64_t now_ns);
  void Lost(int conn, const std::string& how);
  void Tell(int conn);
  void SendRoster();
  Status Late() const;
  std::string UnprovenAmong(const std::vector<int>& ranks) const;
  bool All(Phase phase) const;

  RendezvousHostOptions options_;
  HostWires* wires_;  // the caller's; outlives us
  std::map<int, Guest> guests_;
  std::vector<int> conn_of_;  // by rank, -1: not joined
  Liveness liveness_;
  Roster roster_;
  // What NoteUnproven was told last, by rank: strangers may say any, and as often as they like. It
  // stands beside the numbers of missing ranks, and nothing else follows from it.
  std::map<int, std::string> unproven_;
  int64_t rejected_ = 0;
  int told_ = 0;                 // guests that know of the failure, or are gone
  std::string no_room_;          // empty: all who called could connect
  int64_t linger_until_ns_ = 0;  // 0: the first Tick after the failure sets it
  bool done_ = false;
  Status status_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_HOST_H_
