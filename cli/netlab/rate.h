// A shaped link as users write it, and how the kernel's token bucket is set for it.
#ifndef GRADWIRE_CLI_NETLAB_RATE_H_
#define GRADWIRE_CLI_NETLAB_RATE_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace gradwire {

// "200mbit", "1gbit", "2.5gbit", "56kbit", any case: bits per second, powers of 1000 as `tc` and
// network cards count. gwInvalidArgument: no such text, or outside 64 kbit/s ... 1 Tbit/s.
StatusOr<int64_t> ParseRate(std::string_view text);

// Of the test network: what separates each rank from the others.
struct Link {
  int64_t rate_bits_per_s = 0;
  int64_t delay_ns = 0;               // one way, between any two ranks
  int64_t least_rate_bits_per_s = 0;  // that it falls to later; 0: it never does
};

// "200mbit", or "200mbit,delay=20ms" with a number and us, ms or s, up to 1 s. gwInvalidArgument:
// another text.
StatusOr<Link> ParseLink(std::string_view text);

// Settings of `tc qdisc tbf`.
struct Shaping {
  int64_t rate_bits_per_s = 0;
  int64_t burst_bytes = 0;  // passes unshaped after a pause
  int64_t limit_bytes = 0;  // queue; what does not fit is dropped
};

// Burst: 2 ms of the rate, at least one full frame with what `tc` loses to rounding, or none would
// pass (larger segments are cut by the shaper itself). Limit: 50 ms of the rate, 512 KiB to 32 MiB,
// or two bursts where that is more: several senders that meet at one receiver fill it.
Shaping ShapingFor(int64_t rate_bits_per_s);

// The longest segments (`gso_max_size`) that a link may be given which falls to this rate later.
// The shaper cuts longer ones as they come. One that waits in it when the rate falls, and then is
// longer than the burst, would stay for ever, and all behind it.
int64_t LongestSegmentAt(int64_t rate_bits_per_s);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_RATE_H_
