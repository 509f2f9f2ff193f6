// Levels of qsgd and TernGrad under scales that all ranks share, in packed lanes: sums of levels
// are levels of the sum. docs/algorithms.md has the error law, docs/wire_format.md the words.
#ifndef GRADWIRE_COMPRESS_KERNELS_LANES_LEVEL_LANES_H_
#define GRADWIRE_COMPRESS_KERNELS_LANES_LEVEL_LANES_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compress/kernels/kernel_job.h"
#include "compress/kernels/lanes/lane_shape.h"
#include "compress/kernels/qsgd/qsgd_kernels.h"

namespace gradwire {

struct LevelLanes {
  QsgdShape levels;  // its block is the lanes'
  LaneShape lanes;
  int world_size = 1;
  // A block's magnitude is at most this often its root mean square; larger values are clipped to
  // the scale. 0: no clipping.
  float clip = 0;

  // What a rank adds to its level, so that no field is negative.
  int32_t bias() const { return levels.levels(); }
  int32_t largest_sum() const { return 2 * world_size * bias(); }
};

// Levels of `bits` bits of `world_size` ranks. 2 * world_size * levels must fit in 31 bits.
inline LevelLanes MakeLevelLanes(int bits, Rounding rounding, int world_size, float clip) {
  LevelLanes shape = {.levels = {.bits = bits, .block = 0, .rounding = rounding},
                      .world_size = world_size,
                      .clip = clip};
  shape.lanes = MakeLaneShape(static_cast<uint32_t>(shape.largest_sum()));
  shape.levels.block = shape.lanes.block;
  return shape;
}

// Brings magnitudes near 1 by a power of two, and back.
struct LevelNorm {
  float scale, unscale;
};
inline LevelNorm MakeLevelNorm(uint32_t absmax_bits) {
  const uint32_t exponent = std::clamp(absmax_bits >> 23, 1u, 253u);  // biased by 127
  return {std::bit_cast<float>((254 - exponent) << 23), std::bit_cast<float>(exponent << 23)};
}

struct LevelLaneKernels {
  // Per block the bits of its magnitude, kInfBits or more where an element is not finite: what the
  // ranks agree on by a maximum.
  void (*magnitudes)(const LevelLanes&, const InputJob&, uint32_t* magnitudes);
  // job.out: 4 * lanes.words(elems) bytes. `agreed`: the largest magnitude of each block over all
  // ranks; what is beyond it is clipped.
  void (*encode)(const LevelLanes&, const EncodeJob&, const uint32_t* agreed);
  // job.payload: the sum of all ranks' words; job.to: kStore. False: a field is larger than the
  // ranks can make it, or a bit is set that belongs to none; the output is then undefined.
  bool (*decode)(const LevelLanes&, const DecodeJob&, const uint32_t* agreed);
};

// The reference: any number of elements, tail included.
void LevelMagnitudesRef(const LevelLanes& shape, const InputJob& job, uint32_t* magnitudes);
void LevelEncodeRef(const LevelLanes& shape, const EncodeJob& job, const uint32_t* agreed);
bool LevelDecodeRef(const LevelLanes& shape, const DecodeJob& job, const uint32_t* agreed);

// The kernels of the active SIMD target.
const LevelLaneKernels& ActiveLevelLaneKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_LANES_LEVEL_LANES_H_
