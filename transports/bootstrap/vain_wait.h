// Whether a start that goes on waiting waits in vain.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_VAIN_WAIT_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_VAIN_WAIT_H_

#include <atomic>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transports/bootstrap/launch_board.h"

namespace gradwire {

class VainWait {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    std::string launch_board;  // as LaunchBoard::Open takes it
    const Clock* clock = nullptr;
    const std::atomic<bool>* cancelled = nullptr;  // may be null
  };
  // What `options` points to outlives this.
  explicit VainWait(const Options& options);

  // gwRevoked: cancelled. gwPeerLost: a process of the job has ended, at rank 0 any, elsewhere rank
  // 0's, for that of another is told by rank 0. It names the one that ended first, which others may
  // have followed. Nothing is said at first: of a rank that has ended the last words may be under
  // way.
  Status Check();

 private:
  const Options options_;
  std::optional<LaunchBoard> board_;
  Deadline patience_ = Deadline::Never();  // set when an end is seen
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_VAIN_WAIT_H_
