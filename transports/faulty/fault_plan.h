// FaultPlan: what a faulty transport does, how often, from which seed; and its spelling.
#ifndef GRADWIRE_TRANSPORTS_FAULTY_FAULT_PLAN_H_
#define GRADWIRE_TRANSPORTS_FAULTY_FAULT_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace gradwire {

// Everything happens on the sending side. Probabilities are per fragment, 0 to 1; a "poll" is one
// call of Progress. Equal plans give equal faults for equal sequences of calls. What is within the
// contract (delay, full, late_sent) must change no result; the rest must end in an error.
struct FaultPlan {
  uint64_t seed = 1;

  double delay =
      0;  // the fragment, and so what follows of its message, is held; other messages pass
  int64_t delay_polls = 8;  // longest time held; at least 1
  double full = 0;          // kFull although there is room
  double late_sent = 0;     // OnSent comes up to delay_polls later than it could

  double corrupt = 0;       // one bit of header or payload is flipped
  int64_t corrupt_at = -1;  // that of the n-th accepted fragment, from 0; -1: none
  // The first accepted fragment from the n-th on with a payload of at least 4 bytes has bit 31 of
  // it flipped and is sealed again, as if memory had failed before: no checksum tells. In what
  // codecs send first that is the sign of a scale, which their decoders refuse.
  int64_t corrupt_sealed_at = -1;
  double duplicate = 0;  // the fragment is sent twice
  double lose =
      0;  // the peer counts as lost from here on: kLost, OnPeerLost, nothing comes from it
  int64_t lose_at = -1;  // one peer, instead of accepting the n-th fragment
  // Likewise, but what is lacking is this process's own: gwSystemError.
  int64_t run_short_at = -1;
};

// "seed=1,delay=0.2,corrupt=1e-6": any of the fields above by name; empty is the default plan.
// gwInvalidArgument: an unknown name (the nearest is suggested) or a value out of range.
StatusOr<FaultPlan> ParseFaultPlan(std::string_view text);

struct FaultySpec {
  std::string inner;  // the transport that works
  FaultPlan plan;
};

// "faulty(loopback,seed=1,delay=0.2)". gwInvalidArgument: not of this form, or as above.
StatusOr<FaultySpec> ParseFaultySpec(std::string_view text);
bool IsFaultySpec(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_FAULTY_FAULT_PLAN_H_
