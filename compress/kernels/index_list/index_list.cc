#include "compress/kernels/index_list/index_list.h"

#include <bit>
#include <cstring>
#include <string>

namespace gradwire {
namespace {

constexpr int64_t kWordBits = 64;
constexpr int64_t kWordBytes = 8;

int64_t Words(int64_t bits) { return (bits + kWordBits - 1) / kWordBits; }

// The two bit strings of a list: the low bits of all indices in a row, and for index i with the
// high bits h the bit h + i.
struct Layout {
  int low_width = 0;  // per index
  int64_t low_bits = 0;
  int64_t high_bits = 0;

  Layout(int64_t universe, int64_t count) {
    if (count == 0) return;
    low_width = std::bit_width(static_cast<uint64_t>(universe / count)) - 1;
    low_bits = count * low_width;
    high_bits = count + ((universe - 1) >> low_width);
  }

  uint64_t low_mask() const { return (uint64_t{1} << low_width) - 1; }
  int64_t low_bytes() const { return Words(low_bits) * kWordBytes; }
  int64_t bytes() const { return low_bytes() + Words(high_bits) * kWordBytes; }
};

uint64_t LoadWord(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void StoreWord(uint64_t word, std::byte* to) { std::memcpy(to, &word, sizeof(word)); }

void WriteLow(std::span<const uint32_t> indices, const Layout& layout, std::byte* out) {
  uint64_t word = 0;
  int filled = 0;
  for (uint64_t index : indices) {
    const uint64_t low = index & layout.low_mask();
    word |= low << filled;
    filled += layout.low_width;
    if (filled < kWordBits) continue;
    StoreWord(word, out);
    out += kWordBytes;
    filled -= kWordBits;
    word = low >> (layout.low_width - filled);
  }
  if (filled > 0) StoreWord(word, out);
}

void WriteHigh(std::span<const uint32_t> indices, const Layout& layout, std::byte* out) {
  std::memset(out, 0, static_cast<size_t>(Words(layout.high_bits) * kWordBytes));
  int64_t at = 0;  // of `word`
  uint64_t word = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto bit = static_cast<int64_t>((uint64_t{indices[i]} >> layout.low_width) + i);
    if (bit / kWordBits != at) {
      StoreWord(word, out + at * kWordBytes);
      at = bit / kWordBits;
      word = 0;
    }
    word |= uint64_t{1} << (bit % kWordBits);
  }
  StoreWord(word, out + at * kWordBytes);
}

// The bits of a string's last word that belong to no index are zero.
bool PaddingIsZero(const std::byte* string, int64_t bits) {
  const int64_t used = bits % kWordBits;
  return used == 0 || LoadWord(string + bits / kWordBits * kWordBytes) >> used == 0;
}

int64_t CountOnes(const std::byte* string, int64_t bits) {
  int64_t ones = 0;
  for (int64_t w = 0; w < Words(bits); ++w)
    ones += std::popcount(LoadWord(string + w * kWordBytes));
  return ones;
}

// Joins both strings. The high string has out.size() ones, not one more. False: not below
// `universe` or not ascending.
bool ReadIndices(const std::byte* list, const Layout& layout, int64_t universe,
                 std::span<uint32_t> out) {
  const std::byte* high = list + layout.low_bytes();
  int64_t i = 0;
  int64_t last = -1;
  bool ascends = true;
  for (int64_t w = 0; w < Words(layout.high_bits); ++w) {
    for (uint64_t word = LoadWord(high + w * kWordBytes); word != 0; word &= word - 1) {
      const int64_t h = w * kWordBits + std::countr_zero(word) - i;
      const int64_t low_at = i * layout.low_width;
      // Eight bytes from any byte of the low string end at the latest in the first word of the
      // other.
      const uint64_t low = LoadWord(list + low_at / 8) >> (low_at % 8) & layout.low_mask();
      const int64_t index = (h << layout.low_width) + static_cast<int64_t>(low);
      ascends &= index > last;
      last = index;
      out[static_cast<size_t>(i++)] = static_cast<uint32_t>(index);
    }
  }
  return ascends && last < universe;
}

Status Corrupt(const char* what) {
  return Status(gwDataCorrupt, std::string("index list ") + what);
}

}  // namespace

int64_t IndexListBytes(int64_t universe, int64_t count) { return Layout(universe, count).bytes(); }

void EncodeIndexList(std::span<const uint32_t> indices, int64_t universe, std::byte* out) {
  if (indices.empty()) return;
  const Layout layout(universe, static_cast<int64_t>(indices.size()));
  WriteLow(indices, layout, out);
  WriteHigh(indices, layout, out + layout.low_bytes());
}

Status DecodeIndexList(ConstBytes list, int64_t universe, std::span<uint32_t> out) {
  const auto count = static_cast<int64_t>(out.size());
  const Layout layout(universe, count);
  if (list.size != layout.bytes()) return Corrupt("of a wrong size");
  if (count == 0) return Status::Ok();
  const std::byte* high = list.data + layout.low_bytes();
  if (!PaddingIsZero(list.data, layout.low_bits) || !PaddingIsZero(high, layout.high_bits)) {
    return Corrupt("with bits set behind its end");
  }
  if (CountOnes(high, layout.high_bits) != count) return Corrupt("of a wrong number of indices");
  if (!ReadIndices(list.data, layout, universe, out)) {
    return Corrupt("that does not ascend within its tensor");
  }
  return Status::Ok();
}

}  // namespace gradwire
