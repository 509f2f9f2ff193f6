// The specification of codec `qsgd`: plain loops, element by element.
#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/kernels/qsgd/qsgd_kernels.h"
#include "compress/kernels/qsgd/qsgd_level_ref.h"
#include "compress/kernels/qsgd/qsgd_scale.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {
namespace {

// Calls visit(k, word, bit) with where field k of `elems` fields of `width` bits lies. Single bits
// are one string. Others are dealt to the words of a group in turn, so that 16 lanes work on 16
// neighbouring elements; see FieldWords.
template <typename Visit>
void ForEachField(int width, int64_t elems, const Visit& visit) {
  const int64_t per_word = 32 / width;
  const int64_t group_elems = width == 1 ? per_word : 16 * per_word;
  for (int64_t first = 0; first < elems; first += group_elems) {
    const int64_t end = std::min(first + group_elems, elems);
    const int64_t words = (end - first + per_word - 1) / per_word;
    int bit = 0;
    for (int64_t k = first; k < end; bit += width) {
      for (int64_t word = 0; word < words && k < end; ++word, ++k) {
        visit(k, first / per_word + word, bit);
      }
    }
  }
}

// Levels of a run as `bits` bits, two's complement. `out` has QsgdRunBytes bytes.
void PackRun(int bits, const int32_t* levels, int64_t elems, std::byte* out) {
  LevelField fields[3];
  const int count = LevelFields(bits, fields);
  for (int f = 0; f < count; ++f) {
    const auto [width, shift] = fields[f];
    uint32_t words[64] = {};
    const uint32_t mask = (1u << width) - 1;
    ForEachField(width, elems, [&, shift = shift](int64_t k, int64_t word, int bit) {
      words[word] |= ((static_cast<uint32_t>(levels[k]) >> shift) & mask) << bit;
    });
    const int64_t bytes = 4 * FieldWords(width, elems);
    std::memcpy(out, words, bytes);
    out += bytes;
  }
}

// The inverse of PackRun. False: a level is out of range, or an unused bit is set.
bool UnpackRun(const QsgdShape& shape, const std::byte* in, int64_t elems, int32_t* levels) {
  LevelField fields[3];
  const int count = LevelFields(shape.bits, fields);
  uint32_t raw[kRunElems] = {};
  const std::byte* from = in;
  for (int f = 0; f < count; ++f) {
    const auto [width, shift] = fields[f];
    const uint32_t mask = (1u << width) - 1;
    ForEachField(width, elems, [&, shift = shift](int64_t k, int64_t word, int bit) {
      raw[k] |= ((ref::LoadAs<uint32_t>(from + 4 * word) >> bit) & mask) << shift;
    });
    from += 4 * FieldWords(width, elems);
  }
  const int unused = 32 - shape.bits;
  for (int64_t k = 0; k < elems; ++k) {
    levels[k] = static_cast<int32_t>(raw[k] << unused) >> unused;
    if (levels[k] < -shape.levels()) return false;
  }
  std::byte again[32 * kQsgdMaxBits];
  PackRun(shape.bits, levels, elems, again);
  return std::memcmp(again, in, QsgdRunBytes(shape.bits, elems)) == 0;
}

// One block of ordinary values; p holds its inputs.
void EncodeLevels(const QsgdShape& shape, const EncodeJob& job, uint32_t absmax_bits,
                  const float* p) {
  const QsgdScale s = MakeQsgdScale(shape, absmax_bits);
  ref::StoreAs(s.scale, job.out);
  std::byte* out = job.out + 4;
  for (int64_t first = 0; first < job.elems; first += kRunElems) {
    const int64_t elems = std::min(kRunElems, job.elems - first);
    uint16_t dither[kRunElems] = {};
    if (shape.rounding == Rounding::kStochastic) ref::FillDither(job, first, elems, dither);
    int32_t levels[kRunElems];
    for (int64_t k = 0; k < elems; ++k) {
      levels[k] = ref::LevelOf(shape, s, p[first + k], dither[k]);
      ref::Finish(job, first + k, p[first + k], static_cast<float>(levels[k]) * s.unit);
    }
    PackRun(shape.bits, levels, elems, out);
    out += QsgdRunBytes(shape.bits, elems);
  }
}

// A block that carries no levels: `scale_bits` and zeros.
void StoreEmptyBlock(const QsgdShape& shape, const EncodeJob& job, uint32_t scale_bits) {
  std::memset(job.out, 0, QsgdBytes(shape, job.elems));
  ref::StoreAs(scale_bits, job.out);
}

void EncodeBlock(const QsgdShape& shape, const EncodeJob& job) {
  float p[kQsgdMaxBlock];
  uint32_t absmax_bits = 0;
  for (int64_t i = 0; i < job.elems; ++i) {
    p[i] = ref::Input(job, i);
    absmax_bits = std::max(absmax_bits, ref::MagnitudeBits(p[i]));
  }
  if (absmax_bits >= kInfBits) {
    StoreEmptyBlock(shape, job, kNanBits);
    for (int64_t i = 0; i < job.elems; ++i) ref::FinishNonFinite(job, i, p[i]);
  } else if (absmax_bits < kMinNormalBits) {
    StoreEmptyBlock(shape, job, 0);
    for (int64_t i = 0; i < job.elems; ++i) ref::Finish(job, i, p[i], 0.0f);
  } else {
    EncodeLevels(shape, job, absmax_bits, p);
  }
}

bool DecodeBlock(const QsgdShape& shape, const DecodeJob& job) {
  const auto scale_bits = ref::LoadAs<uint32_t>(job.payload);
  const bool nan = scale_bits == kNanBits;
  if (!nan && !IsQsgdScale(scale_bits)) return false;
  const bool has_levels = !nan && scale_bits != 0;
  const float unit = QsgdUnit(shape, std::bit_cast<float>(nan ? 0u : scale_bits));
  const std::byte* in = job.payload + 4;
  for (int64_t first = 0; first < job.elems; first += kRunElems) {
    const int64_t elems = std::min(kRunElems, job.elems - first);
    int32_t levels[kRunElems];
    if (!UnpackRun(shape, in, elems, levels)) return false;
    if (!has_levels && std::any_of(levels, levels + elems, [](int32_t l) { return l != 0; }))
      return false;
    for (int64_t k = 0; k < elems; ++k) {
      const float v = nan ? std::bit_cast<float>(kNanBits) : static_cast<float>(levels[k]) * unit;
      ref::Emit(job, first + k, v);
    }
    in += QsgdRunBytes(shape.bits, elems);
  }
  return true;
}

}  // namespace

void QsgdEncodeRef(const QsgdShape& shape, const EncodeJob& job) {
  for (int64_t first = 0; first < job.elems; first += shape.block) {
    const int64_t elems = std::min(shape.block, job.elems - first);
    EncodeBlock(shape, job.Sub(first, elems, first / shape.block * QsgdBlockBytes(shape)));
  }
}

bool QsgdDecodeRef(const QsgdShape& shape, const DecodeJob& job) {
  for (int64_t first = 0; first < job.elems; first += shape.block) {
    const int64_t elems = std::min(shape.block, job.elems - first);
    const int64_t at = first / shape.block * QsgdBlockBytes(shape);
    if (!DecodeBlock(shape, job.Sub(first, elems, at))) return false;
  }
  return true;
}

}  // namespace gradwire
