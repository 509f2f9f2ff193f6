// CRC32C by the SSE 4.2 instruction. It takes 8 bytes a cycle but its result comes 3 cycles later,
// so three lanes of the input run side by side; a table then moves a lane's checksum past the lanes
// behind it (multiplication by x^(8 * lane bytes) modulo the polynomial, linear in the 4 bytes of
// the value).
#include <array>
#include <bit>
#include <cstring>

#include "base/crc_internal.h"

#if defined(__x86_64__)
#include <nmmintrin.h>

namespace gradwire::crc_internal {
namespace {

// Two lane lengths: combining costs about 25 cycles, 3 % of the long one; the short one keeps what
// is left over (and small frames) in three lanes too.
constexpr int64_t kLongLane = 2048;
constexpr int64_t kShortLane = 128;

// kShift[k][b] = (b << 8k) * x^(8 * lane bytes) mod the polynomial.
using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr uint32_t AppendZeroBytes(uint32_t crc, int64_t bytes) {
  for (int64_t bit = 0; bit < 8 * bytes; ++bit) {
    crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return crc;
}

constexpr ShiftTable MakeShift(int64_t lane_bytes) {
  ShiftTable table = {};
  // Bit 31 is x^0: its shift is x^n itself, and each lower bit is one more multiplication by x.
  std::array<uint32_t, 32> of_bit = {};
  of_bit[31] = AppendZeroBytes(0x80000000u, lane_bytes);
  for (int bit = 30; bit >= 0; --bit) {
    const uint32_t above = of_bit[bit + 1];
    of_bit[bit] = (above >> 1) ^ ((above & 1) != 0 ? kPolynomial : 0);
  }
  for (uint32_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const uint32_t lowest = static_cast<uint32_t>(std::countr_zero(byte));
      table[k][byte] = table[k][byte & (byte - 1)] ^ of_bit[8 * k + lowest];
    }
  }
  return table;
}

constexpr ShiftTable kLongShift = MakeShift(kLongLane);
constexpr ShiftTable kShortShift = MakeShift(kShortLane);

uint32_t Shift(const ShiftTable& table, uint32_t crc) {
  return table[0][crc & 0xFF] ^ table[1][(crc >> 8) & 0xFF] ^ table[2][(crc >> 16) & 0xFF] ^
         table[3][crc >> 24];
}

uint64_t Load64(const unsigned char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Where the work stands: the checksum (inverted) of what lies before p.
struct Cursor {
  const unsigned char* p;
  int64_t bytes;
  uint32_t crc;
};

template <int64_t kLane>
__attribute__((target("sse4.2"))) void TakeLanes(const ShiftTable& table, Cursor* at) {
  for (; at->bytes >= 3 * kLane; at->bytes -= 3 * kLane, at->p += 3 * kLane) {
    uint64_t a = at->crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (const unsigned char* p = at->p; p < at->p + kLane; p += 8) {
      a = _mm_crc32_u64(a, Load64(p));
      b = _mm_crc32_u64(b, Load64(p + kLane));
      c = _mm_crc32_u64(c, Load64(p + 2 * kLane));
    }
    const uint32_t ab = Shift(table, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    at->crc = Shift(table, ab) ^ static_cast<uint32_t>(c);
  }
}

}  // namespace

bool HasHardware() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t Hardware(const void* data, int64_t bytes,
                                                    uint32_t seed) {
  Cursor at = {static_cast<const unsigned char*>(data), bytes, ~seed};
  TakeLanes<kLongLane>(kLongShift, &at);
  TakeLanes<kShortLane>(kShortShift, &at);
  uint64_t crc = at.crc;
  for (; at.bytes >= 8; at.bytes -= 8, at.p += 8) crc = _mm_crc32_u64(crc, Load64(at.p));
  auto last = static_cast<uint32_t>(crc);
  for (; at.bytes > 0; --at.bytes, ++at.p) last = _mm_crc32_u8(last, *at.p);
  return ~last;
}

}  // namespace gradwire::crc_internal

#else

namespace gradwire::crc_internal {

bool HasHardware() { return false; }

uint32_t Hardware(const void* data, int64_t bytes, uint32_t seed) {
  return Portable(data, bytes, seed);
}

}  // namespace gradwire::crc_internal

#endif
