// Lists of ascending, distinct indices in at most 2 + log2(universe / count) bits each: Elias-Fano
// codes (Elias, "Efficient storage and retrieval by content and address of static files", J. ACM
// 1974). docs/wire_format.md describes the bytes.
//
// The size follows from universe and count, so that a receiver knows it before. There is no SIMD
// form: one core writes or reads a list of 1 % of a tensor in a few hundredths of the time it takes
// to copy the tensor, and most of that is a chain from set bit to set bit.
#ifndef GRADWIRE_COMPRESS_KERNELS_INDEX_LIST_INDEX_LIST_H_
#define GRADWIRE_COMPRESS_KERNELS_INDEX_LIST_INDEX_LIST_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/view.h"

namespace gradwire {

// The indices of a universe of n are 0 .. n-1; they have 32 bits.
inline constexpr int64_t kIndexListMaxUniverse = int64_t{1} << 32;

// Bytes of a list of `count` indices, exact; 0 <= count <= universe <= kIndexListMaxUniverse.
int64_t IndexListBytes(int64_t universe, int64_t count);

// `indices` ascend, are distinct and below `universe`. Writes IndexListBytes bytes to `out`, of any
// alignment. Any thread.
void EncodeIndexList(std::span<const uint32_t> indices, int64_t universe, std::byte* out);

// Reads a list of out.size() <= universe indices from any bytes whatever, at any alignment.
// gwDataCorrupt: no encoder writes these bytes; `out` is then undefined. After success its
// indices are as EncodeIndexList wants them, and it would write the same bytes again. Any thread.
Status DecodeIndexList(ConstBytes list, int64_t universe, std::span<uint32_t> out);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_INDEX_LIST_INDEX_LIST_H_
