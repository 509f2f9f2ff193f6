// What a frame of a collective is for: the run of a slice of an operation.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_RUN_KEY_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_RUN_KEY_H_

#include <compare>
#include <cstdint>

#include "transports/frame/frame.h"

namespace gradwire {

// Names one run: slice of an operation, and which of the slice's runs (a scheme may need several).
struct RunKey {
  uint32_t op_seq = 0;
  uint32_t slice = 0;
  uint8_t run = 0;
  auto operator<=>(const RunKey&) const = default;
};

// The run's number travels in the top bits of the frame's message number.
inline constexpr int kRunShift = 24;
inline constexpr uint32_t kMessageMask = (1u << kRunShift) - 1;

inline RunKey KeyOf(const FrameHeader& h) {
  return {h.op_seq, h.slice, static_cast<uint8_t>(h.message >> kRunShift)};
}
inline int32_t MessageOf(const FrameHeader& h) {
  return static_cast<int32_t>(h.message & kMessageMask);
}
inline uint32_t MessageField(int32_t message, uint8_t run) {
  return static_cast<uint32_t>(message) | static_cast<uint32_t>(run) << kRunShift;
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_RUN_KEY_H_
