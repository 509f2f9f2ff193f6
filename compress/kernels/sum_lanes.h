// Sums in the one order that every target uses, for sums that reach the wire.
#ifndef GRADWIRE_COMPRESS_KERNELS_SUM_LANES_H_
#define GRADWIRE_COMPRESS_KERNELS_SUM_LANES_H_

namespace gradwire {

// Halves are added to halves. Lane i has summed the elements i, i + 16, i + 32, ... of a block in
// this order. Destroys the lanes.
inline float SumLanes(float lanes[16]) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_SUM_LANES_H_
