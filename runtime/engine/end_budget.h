// EndBudget: how the time that a communicator's end may take is divided.
#ifndef GRADWIRE_RUNTIME_ENGINE_END_BUDGET_H_
#define GRADWIRE_RUNTIME_ENGINE_END_BUDGET_H_

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace gradwire {

// gwCommDestroy returns within abort_timeout_ms, all of it. In this order:
//
//   what                                       for how long at most                of 5 s
//   it waits for the other ranks               patience: 4/5 of all                4 s
//     in that, it takes leave of them          leave: all, but no more than 5 s    5 s
//       until they are through as well         through: 1/5 of leave               1 s
//       until they know that it leaves         bye: the rest of leave              4 s
//   it ends what they did not come to, until
//     the transport has let go of memory       quiet: 1/10 of all, at most 1 s     500 ms
//   it frees the transport                     closing: half of what is left       250 ms or more
//
// gwCommFinalize has no patience of this kind, but takes leave likewise. Whatever else ends a
// communicator waits for the transport likewise.
struct EndBudget {
  int64_t all_ns;  // abort_timeout_ms

  constexpr int64_t patience_ns() const { return all_ns / 5 * 4; }
  constexpr int64_t leave_ns() const { return std::min(kMostLeaveNs, all_ns); }
  constexpr int64_t through_ns() const { return leave_ns() / 5; }
  constexpr int64_t bye_ns() const { return leave_ns() - through_ns(); }
  constexpr int64_t quiet_ns() const { return std::min(all_ns / 10, kMostQuietNs); }
  // Half: what freeing does besides waiting takes time too.
  static constexpr int64_t closing_ns(int64_t remaining_ns) { return remaining_ns / 2; }

 private:
  static constexpr int64_t kMostLeaveNs = 5 * kNsPerSecond;
  static constexpr int64_t kMostQuietNs = kNsPerSecond;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_END_BUDGET_H_
