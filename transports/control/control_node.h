// ControlNode: what one rank does with control messages. Relays through rank 0, keeps the
// heartbeats, and turns a broken link, silence or a verdict from rank 0 into "rank r is lost" with
// the same r everywhere. No clock, no threads, no I/O of its own: it runs over sockets and in the
// simulator alike.
//
// Rank 0 is the hub: it alone watches everybody. When it loses rank r it broadcasts REVOKE{epoch,
// culprit r}; the others learn of the loss from that message. They watch rank 0; when it dies all
// of them name it.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_CONTROL_NODE_H_
#define GRADWIRE_TRANSPORTS_CONTROL_CONTROL_NODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transports/control/channel.h"
#include "transports/control/links.h"
#include "transports/control/liveness.h"
#include "transports/control/message.h"

namespace gradwire {

struct ControlNodeOptions {
  int rank = 0;
  int world_size = 1;
  uint64_t job = 0;
  LivenessOptions liveness;
};

// Threads: one at a time.
class ControlNode {
 public:
  // `links` must outlive the node.
  ControlNode(const ControlNodeOptions& options, ControlLinks* links, int64_t now_ns);

  // Takes in what the links have, relays, checks the heartbeats; reports to `out`, which may send.
  void Step(int64_t now_ns, ControlSink* out);
  // When Step is to be called at the latest, even if nothing arrives.
  int64_t NextNs() const { return revokes_.empty() ? liveness_.NextNs() : now_ns_; }

  // As ControlChannel.
  Status SendTo(int to_rank, ControlMessage message);
  Status Broadcast(ControlMessage message);
  void SetProgress(const ControlProgress& progress) { progress_ = progress; }
  void SetEpoch(uint32_t epoch) { epoch_ = epoch; }

  // This rank leaves: finished when `why` is success, otherwise the others take it for lost with
  // `why` as the cause. From here on nothing is reported to the sink as lost.
  void SayBye(const Status& why);
  // Why the first rank was lost, whenever that was; success while none is. Rank 0 is not counted by
  // a rank that leaves: it may have gone because all is done.
  const Status& first_loss() const { return first_loss_; }
  // Everybody that has to know knows: rank 0 has answered or is gone; at rank 0, all others have
  // left or are lost (so that the hub leaves last).
  bool MayLeave() const;
  // For an error text, while not MayLeave: "rank 0 does not answer", "ranks 2, 5 have not left".
  std::string WhoStays() const;

  int rank() const { return options_.rank; }
  int world_size() const { return options_.world_size; }

 private:
  enum class Presence : uint8_t { kHere, kLeft, kLost };
  class LinkEvents;

  bool hub() const { return options_.rank == 0; }
  bool Here(int rank) const { return presence_[rank] == Presence::kHere; }
  // A hub that leaves serves the others until the last of them has left.
  bool Hears(int rank) const {
    return Here(rank) || (rank == 0 && presence_[0] == Presence::kLeft);
  }
  bool IsRank(int rank) const { return rank >= 0 && rank < options_.world_size; }
  ControlMessage Stamp(ControlMessage message, uint16_t dst) const;
  void SendToAllHere(const ControlMessage& message, int except);
  void SendHeartbeats();

  Status CheckIncoming(int link, const ControlMessage& message) const;
  void OnMessage(int link, const ControlMessage& message, ControlSink* out);
  void OnRevoke(const ControlMessage& message, ControlSink* out);
  void OnBye(const ControlMessage& message, ControlSink* out);
  void Relay(const ControlMessage& message, ControlSink* out);
  // The hub's verdict on the culprit of `revoke`: lost here, and everybody is told.
  void Condemn(const ControlMessage& revoke, ControlSink* out);
  void OnLinkLost(int peer, const Status& cause, ControlSink* out);
  void Lose(int rank, const Status& cause, ControlSink* out);

  ControlNodeOptions options_;
  ControlLinks* links_;  // the caller's; outlives us
  Liveness liveness_;
  std::vector<Presence> presence_;
  std::vector<ControlMessage> revokes_;  // at the hub, to be judged by the next Step
  ControlProgress progress_;
  uint32_t epoch_ = 0;
  int64_t now_ns_;
  bool leaving_ = false;
  Status first_loss_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_CONTROL_NODE_H_
