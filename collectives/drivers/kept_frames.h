// Frames that came before their run began here: copied aside, as many as a correct peer may send.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_KEPT_FRAMES_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_KEPT_FRAMES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "collectives/drivers/run_key.h"
#include "transports/frame/frame.h"

namespace gradwire {

class KeptFrames {
 public:
  struct Frame {
    int peer = -1;
    FrameHeader header;
    AlignedBuffer bytes;
    // Bare headers take memory too.
    int64_t size() const { return static_cast<int64_t>(sizeof header) + bytes.size(); }
  };

  // `limit_bytes` of each peer, headers counted.
  KeptFrames(int world_size, int64_t limit_bytes);

  // A copy of the fragment. A mismatch where the peer has sent more than it may, then nothing is
  // kept.
  Status Keep(int peer, const FrameHeader& header, ConstBytes fragment);

  // Those of a run, in the order in which they came; they are kept no more.
  std::vector<Frame> Take(uint16_t turn, const RunKey& key);

  void Drop(uint16_t turn);
  void DropAllBut(uint16_t turn);

  // Calls `visit(peer, key)` for each frame of the turn, in order of runs, until that returns
  // false.
  template <typename Visit>
  void ForEach(uint16_t turn, const Visit& visit) const {
    for (const auto& [of, frames] : runs_) {
      if (of.first != turn) continue;
      for (const Frame& frame : frames) {
        if (!visit(frame.peer, of.second)) return;
      }
    }
  }

 private:
  void Release(const std::vector<Frame>& frames);

  const int64_t limit_bytes_;
  std::vector<int64_t> bytes_of_;  // by peer
  std::map<std::pair<uint16_t, RunKey>, std::vector<Frame>> runs_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_KEPT_FRAMES_H_
