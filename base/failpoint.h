// Failpoints: named places at which a process can be made to kill itself, so that tests meet each
// of them and not only the moments that chance finds. Armed by the setting `failpoint`, on one rank
// as a rule. A place that is not armed costs one relaxed load.
#ifndef GRADWIRE_BASE_FAILPOINT_H_
#define GRADWIRE_BASE_FAILPOINT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace gradwire {

enum class Failpoint : uint8_t {
  kNone,
  kHello,     // rendezvous: the hello of either side has been sent, nothing is proven yet
  kRoster,    // rendezvous: the roster is out (rank 0) or has come (the others), READY is not
  kSlice,     // a slice has been admitted, its first sends are queued
  kFragment,  // between two fragments of one message
  kVote,      // the step is complete, the vote not sent
  kResult,    // rank 0 has decided the step and told nobody
  kCommit,    // the residual of one tensor is committed, those of the rest are not
  kBye,       // all work is done, BYE not said
};

// Spellings of the setting, in the order of the enum; "" is none.
inline constexpr std::array<std::string_view, 9> kFailpointNames = {
    "", "hello", "roster", "slice", "fragment", "vote", "result", "commit", "bye"};

namespace failpoint_internal {
extern std::atomic<Failpoint> armed;
void Hit();
}  // namespace failpoint_internal

// "vote": SIGKILL the first time this process comes by; "vote:7": the seventh time. Empty: never.
// The last call counts. gwInvalidArgument: no such name (the nearest is suggested), or no count of
// at least 1.
Status ArmFailpoint(std::string_view text);

// The place itself. Threads: any.
inline void PassFailpoint(Failpoint place) {
  if (failpoint_internal::armed.load(std::memory_order_relaxed) == place) [[unlikely]] {
    failpoint_internal::Hit();
  }
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FAILPOINT_H_
