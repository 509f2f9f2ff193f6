// Votes of signSGD in packed lanes: the sum of all votes tells the majority. A block begins with a
// word that counts the ranks whose block is not finite. docs/algorithms.md has the error law,
// docs/wire_format.md the words.
#ifndef GRADWIRE_COMPRESS_KERNELS_LANES_SIGN_LANES_H_
#define GRADWIRE_COMPRESS_KERNELS_LANES_SIGN_LANES_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"
#include "compress/kernels/lanes/lane_shape.h"

namespace gradwire {

struct SignLanes {
  LaneShape lanes;
  int world_size = 1;

  // A field is a vote, -1, 0 or 1, plus 1.
  int32_t largest_sum() const { return 2 * world_size; }
};

inline SignLanes MakeSignLanes(int world_size) {
  SignLanes shape = {.world_size = world_size};
  shape.lanes = MakeLaneShape(static_cast<uint32_t>(shape.largest_sum()), /*head_words=*/1);
  return shape;
}

struct SignLaneKernels {
  // job.out: 4 * lanes.words(elems) bytes. The error of the statistics is that of the vote as a
  // value.
  void (*encode)(const SignLanes&, const EncodeJob&);
  // job.payload: the sum of all ranks' words; job.to: kStore. Decodes to the majority, -1, 0 (a
  // tie) or 1, times world_size. False: a head or a field is larger than the ranks can make it, or
  // a bit is set that belongs to none; the output is then undefined.
  bool (*decode)(const SignLanes&, const DecodeJob&);
};

// The reference: any number of elements, tail included.
void SignEncodeRef(const SignLanes& shape, const EncodeJob& job);
bool SignDecodeRef(const SignLanes& shape, const DecodeJob& job);

// The kernels of the active SIMD target.
const SignLaneKernels& ActiveSignLaneKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_LANES_SIGN_LANES_H_
