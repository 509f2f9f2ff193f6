// Links: the ordered byte streams under the control plane. Rank 0 has one to every other rank, the
// others have one to rank 0.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_LINKS_H_
#define GRADWIRE_TRANSPORTS_CONTROL_LINKS_H_

#include <string>

#include "base/status.h"
#include "transports/control/message.h"

namespace gradwire {

class LinkSink {
 public:
  virtual ~LinkSink() = default;
  virtual void OnLinkMessage(int peer, ControlMessage message) = 0;
  // The link is of no use any more; once per peer.
  virtual void OnLinkLost(int peer, const Status& cause) = 0;
};

class ControlLinks {
 public:
  virtual ~ControlLinks() = default;
  // Queues an encoded message. Never blocks; dropped where there is no link (its loss is reported
  // by Poll).
  virtual void Send(int peer, const std::string& wire) = 0;
  // Reports what has arrived; never blocks.
  virtual void Poll(LinkSink* sink) = 0;
  // What is queued still goes out; nothing that comes from `peer` is reported any more.
  virtual void Fence(int peer) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_LINKS_H_
