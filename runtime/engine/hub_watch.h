// HubWatch: whether rank 0's engine still runs, as another rank sees it. Sans threads and clock.
#ifndef GRADWIRE_RUNTIME_ENGINE_HUB_WATCH_H_
#define GRADWIRE_RUNTIME_ENGINE_HUB_WATCH_H_

#include <cstdint>

#include "base/pause_watch.h"
#include "transports/control/message.h"

namespace gradwire {

// That its control plane gives signs of life tells nothing of the engine: what these carry must
// change.
class HubWatch {
 public:
  // More than `pause_ns` between two looks is a pause of this rank itself.
  explicit HubWatch(int64_t pause_ns) : pause_(pause_ns) {}

  void Hear(const HeartbeatFields& fields, int64_t now_ns) {
    if (fields == heard_) return;
    heard_ = fields;
    moved_ns_ = now_ns;
  }

  // Since when nothing has changed there. Asked again and again while this rank waits: after a
  // pause, in which perhaps all have stood still, it begins anew.
  int64_t StillSince(int64_t now_ns) {
    if (pause_.HasPaused(now_ns)) moved_ns_ = now_ns;
    return moved_ns_;
  }

 private:
  PauseWatch pause_;
  HeartbeatFields heard_;
  int64_t moved_ns_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_HUB_WATCH_H_
