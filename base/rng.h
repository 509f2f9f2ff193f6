// Random bits without state: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011), the only generator of gradwire.
//
// A draw is a pure function of where it is used, never of what was drawn before. So results do not
// depend on threads, on the width of a SIMD register, on the device or on the order of calls, and
// every rank can recompute a shared draw. SIMD and CUDA kernels have their own Philox; they take
// key and counter from DitherInput's layout and must give DitherHalves' bits.
#ifndef GRADWIRE_BASE_RNG_H_
#define GRADWIRE_BASE_RNG_H_

#include <array>
#include <cstdint>
#include <limits>

namespace gradwire {

// One Philox4x32-10 call.
struct PhiloxInput {
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> counter;
};

std::array<uint32_t, 4> Philox(const PhiloxInput& in);

// What a draw is for. Different purposes of one element give independent bits.
enum class DitherPurpose : uint32_t {
  kWorker = 0,  // a rank rounds its own contribution
  kOwner = 1,   // the owner of a shard rounds the sum
  kShared = 2,  // equal on all ranks: set `rank` to 0
};

// Elements per Philox call, and the element count of a tensor that the counter can tell apart.
inline constexpr int64_t kDitherGroupElems = 8;
inline constexpr int64_t kDitherMaxElems = int64_t{1} << 35;

// Names the random bits of a run of elements of one tensor.
//
// `first_elem` is the tensor-global index of the caller's element 0, so an element gets the same
// bits whichever slice or shard it travels in. Indices stay below kDitherMaxElems (the counter has
// 32 bits for index / 8); beyond it bits would repeat.
struct Dither {
  uint32_t seed = 0;  // of the run; equal on all ranks
  DitherPurpose purpose = DitherPurpose::kWorker;
  uint64_t tensor = 0;  // id of the tensor: the hash of its name
  uint32_t step = 0;
  uint32_t rank = 0;  // below 2^30; 0 for kShared
  int64_t first_elem = 0;
};

// Key and counter of group `elem_group` = tensor-global element index / 8. The layout is part of
// the wire format: all ranks must agree on it.
//   key     = {seed, tensor bits 0..31}
//   counter = {elem_group, tensor bits 32..63, step, purpose << 30 | rank}
inline PhiloxInput DitherInput(const Dither& dither, int64_t elem_group) {
  const uint32_t who = (static_cast<uint32_t>(dither.purpose) << 30) | (dither.rank & 0x3FFFFFFFu);
  return {.key = {dither.seed, static_cast<uint32_t>(dither.tensor)},
          .counter = {static_cast<uint32_t>(elem_group), static_cast<uint32_t>(dither.tensor >> 32),
                      dither.step, who}};
}

// The 16 random bits of each of the 8 elements of a group: out[i] belongs to tensor-global element
// 8 * elem_group + i, and is half i of the call (low half of a word first). `first_elem` plays no
// part.
inline void DitherHalves(const Dither& dither, int64_t elem_group, uint16_t out[8]) {
  const std::array<uint32_t, 4> words = Philox(DitherInput(dither, elem_group));
  for (int i = 0; i < 8; ++i) out[i] = static_cast<uint16_t>(words[i / 2] >> (16 * (i & 1)));
}

// The 16 random bits of one element, `elem` counted from first_elem. One Philox call each: the
// scalar reference; loops take DitherHalves.
inline uint16_t DitherHalf(const Dither& dither, int64_t elem) {
  const int64_t index = dither.first_elem + elem;
  uint16_t halves[8];
  DitherHalves(dither, index >> 3, halves);
  return halves[index & 7];
}

// A stream of uniform 64-bit numbers for tests, benchmarks and simulations; meets the standard's
// UniformRandomBitGenerator. Streams of one seed are independent. Copying copies the position.
class RandomStream {
 public:
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }

  explicit RandomStream(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint64_t operator()();

  // Uniform in [0, 1), 53 bits.
  double Unit() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

  // Uniform in [0, bound), bound > 0; the bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t next_ = 0;
  std::array<uint32_t, 4> words_ = {};
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_RNG_H_
