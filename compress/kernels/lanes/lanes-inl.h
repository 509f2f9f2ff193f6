// Packing and unpacking of lanes, once per Highway target; lane_ref.h says which element lies
// where. Include after hwy/foreach_target.h.
#include "compress/kernels/lanes/lane_shape.h"
#include "compress/kernels/run-inl.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_LANES_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_LANES_LANES_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_LANES_LANES_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_LANES_LANES_INL_H_
#endif

#if GW_SIMD_TARGET

HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {

// Writes the words of a whole block. field_of(i): fields of its elements i, i + 1, ..., one per
// lane.
template <class FieldOf>
HWY_INLINE void PackBlock(const LaneShape& lanes, const FieldOf& field_of, std::byte* out) {
  for (int64_t group = 0; group < lanes.block; group += lanes.group_elems()) {
    for (int64_t lane = 0; lane < kGroupWords; lane += kLanes) {
      VU words = hn::Zero(DU());
      for (int j = 0; j < lanes.per_word; ++j) {
        const VU fields = field_of(group + kGroupWords * j + lane);
        words = hn::Or(words, hn::ShiftLeftSame(fields, lanes.width * j));
      }
      StoreWords(words, out + 4 * lane);
    }
    out += 4 * kGroupWords;
  }
}

// The inverse: hands them to take(fields, i). Returns whether none is larger than `largest`, and no
// bit is set beside them.
template <class Take>
HWY_INLINE bool UnpackBlock(const LaneShape& lanes, const std::byte* in, int32_t largest,
                            const Take& take) {
  const DI di;
  const VU mask = hn::Set(DU(), lanes.mask());
  VI seen = hn::Zero(di);
  VU any = hn::Zero(DU());
  for (int64_t group = 0; group < lanes.block; group += lanes.group_elems()) {
    for (int64_t lane = 0; lane < kGroupWords; lane += kLanes) {
      const VU words = LoadWords(in + 4 * lane);
      any = hn::Or(any, words);
      for (int j = 0; j < lanes.per_word; ++j) {
        const VU field = hn::And(hn::ShiftRightSame(words, lanes.width * j), mask);
        const VI number = hn::BitCast(di, field);
        seen = hn::Max(seen, number);
        take(number, group + kGroupWords * j + lane);
      }
    }
    in += 4 * kGroupWords;
  }
  const VU stray = hn::And(any, hn::Set(DU(), lanes.stray_bits()));
  return hn::AllFalse(di, hn::Gt(seen, hn::Set(di, largest))) &&
         hn::AllTrue(DU(), hn::Eq(stray, hn::Zero(DU())));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();

#endif  // GW_SIMD_TARGET
#endif  // include guard per target
