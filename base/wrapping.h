// Which of two numbers is behind the other where numbers are counted on without end and wrap: turns
// in 16 bits, operations of a turn in 32. Right for numbers that are less than half the range
// apart.
#ifndef GRADWIRE_BASE_WRAPPING_H_
#define GRADWIRE_BASE_WRAPPING_H_

#include <cstdint>

namespace gradwire {

// How many turns `a` is ahead of `b`; negative: behind.
constexpr int TurnsAhead(uint16_t a, uint16_t b) {
  return static_cast<int16_t>(static_cast<uint16_t>(a - b));
}

constexpr bool IsBefore(uint32_t op_seq, uint32_t other) {
  return static_cast<int32_t>(op_seq - other) < 0;
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_WRAPPING_H_
