// The union of some lists of indices.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_INDEX_UNION_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_INDEX_UNION_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "base/view.h"

namespace gradwire {

// A bit for each of `elems` elements, and for each word of them how many indices the words before
// it hold.
class IndexUnion {
 public:
  static int64_t BytesFor(int64_t elems) {
    return Words(elems) * static_cast<int64_t>(sizeof(uint64_t) + sizeof(uint32_t));
  }

  // `memory`, of at least BytesFor(elems) and aligned to 8, is the union's while it lives.
  IndexUnion(Bytes memory, int64_t elems)
      : words_(reinterpret_cast<uint64_t*>(memory.data), static_cast<size_t>(Words(elems))),
        before_(reinterpret_cast<uint32_t*>(words_.data() + words_.size())) {
    std::fill(words_.begin(), words_.end(), 0);
  }

  // Indices below `elems`.
  void Add(std::span<const uint32_t> indices) {
    for (uint32_t index : indices) words_[index / kBits] |= uint64_t{1} << index % kBits;
  }

  // Writes the indices, ascending, to `out`, which has room; returns their number.
  uint32_t ListInto(uint32_t* out) {
    uint32_t count = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      before_[w] = count;
      for (uint64_t word = words_[w]; word != 0; word &= word - 1) {
        out[count++] =
            static_cast<uint32_t>(w * kBits) + static_cast<uint32_t>(std::countr_zero(word));
      }
    }
    return count;
  }

  // Where an index of the union is in what ListInto wrote last. Nothing was added since. In
  // constant time: looking for the indices of every rank in the list takes as long as ranks times
  // the list.
  uint32_t PositionOf(uint32_t index) const {
    const uint64_t below = words_[index / kBits] & ((uint64_t{1} << index % kBits) - 1);
    return before_[index / kBits] + static_cast<uint32_t>(std::popcount(below));
  }

 private:
  static constexpr int64_t kBits = 64;
  static int64_t Words(int64_t elems) { return (elems + kBits - 1) / kBits; }

  std::span<uint64_t> words_;
  uint32_t* before_;  // behind the words, as many; by ListInto
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_INDEX_UNION_H_
