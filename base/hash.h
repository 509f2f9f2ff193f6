// 64-bit hashes that are equal on every rank, build and run: XXH3 for bytes, a mixer for fields.
// Tensor ids and wire signatures are made of them, so their values are part of the wire format.
// Not for secrets: collisions can be made on purpose.
#ifndef GRADWIRE_BASE_HASH_H_
#define GRADWIRE_BASE_HASH_H_

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/view.h"

namespace gradwire {

// XXH3_64bits of host memory. Any thread.
uint64_t HashBytes(ConstBytes bytes);
uint64_t HashString(std::string_view text);

// Every bit of the result depends on every bit of `value`; one to one (the finaliser of
// SplitMix64).
constexpr uint64_t Mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// Combines values into one; the order matters, and so does their number:
//   uint64_t signature = Hasher().Add(op).Add(elems).Add(name).digest();
// A string counts as one value, so Add("ab").Add("c") differs from Add("a").Add("bc").
class Hasher {
 public:
  // Integers and enumerations; negative ones count as their 64-bit two's complement. A float goes
  // in through std::bit_cast, so that the caller decides about -0 and NaN.
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  constexpr Hasher& Add(T value) {
    state_ = Mix64(state_ ^ Mix64(static_cast<uint64_t>(value) + kStep)) + kStep;
    return *this;
  }
  Hasher& Add(std::string_view text) { return Add(HashString(text)); }
  Hasher& Add(const char* text) { return Add(std::string_view(text)); }

  // May be taken at any time; more may be added afterwards.
  constexpr uint64_t digest() const { return Mix64(state_); }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
  uint64_t state_ = kStep;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_HASH_H_
