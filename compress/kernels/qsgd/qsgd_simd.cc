// SIMD kernels of codec `qsgd`; qsgd_ref.cc says what they compute, byte for byte. Two loops per
// block: the first brings the input to first-level cache and finds the scale, the second quantizes.
// Rare blocks (non-finite, extreme scales) and the tail go to the reference.
#include <cstring>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/qsgd/qsgd_kernels.h"
#include "compress/kernels/qsgd/qsgd_scale.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/qsgd/qsgd_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/dither-inl.h"
#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

// --- packing: vertical, word lane i takes elements i, i + 16, i + 32, ...
// ---------------------------

template <int kWidth>
void PackField(const int32_t* HWY_RESTRICT levels, int shift, std::byte* HWY_RESTRICT out) {
  const DI di;
  const DU du;
  constexpr int64_t kPerWord = 32 / kWidth;
  const VU mask = hn::Set(du, (1u << kWidth) - 1);
  for (int64_t group = 0; group < kRunElems; group += 16 * kPerWord, out += 64) {
    for (int64_t lane = 0; lane < 16; lane += kLanes) {
      VU words = hn::Zero(du);
      for (int64_t j = 0; j < kPerWord; ++j) {
        const VU raw = hn::BitCast(du, hn::Load(di, levels + group + 16 * j + lane));
        const VU field = hn::And(hn::ShiftRightSame(raw, shift), mask);
        words = hn::Or(words, hn::ShiftLeftSame(field, static_cast<int>(kWidth * j)));
      }
      StoreWords(words, out + 4 * lane);
    }
  }
}

void PackBits(const int32_t* HWY_RESTRICT levels, int shift, std::byte* HWY_RESTRICT out) {
  const DI di;
  const DU du;
  const VU bit = hn::Set(du, 1u << shift);
  for (int64_t k = 0; k < kRunElems; k += 32) {
    uint32_t word = 0;
    for (int64_t lane = 0; lane < 32; lane += kLanes) {
      const VU raw = hn::BitCast(du, hn::Load(di, levels + k + lane));
      word |= BitsOf(hn::TestBit(raw, bit)) << lane;
    }
    hwy::CopyBytes<4>(&word, out + k / 8);
  }
}

void PackRun(int bits, const int32_t* levels, std::byte* out) {
  LevelField fields[3];
  const int count = LevelFields(bits, fields);
  for (int f = 0; f < count; ++f) {
    const auto [width, shift] = fields[f];
    if (width == 8) PackField<8>(levels, shift, out);
    if (width == 4) PackField<4>(levels, shift, out);
    if (width == 2) PackField<2>(levels, shift, out);
    if (width == 1) PackBits(levels, shift, out);
    out += 32 * width;
  }
}

// --- unpacking: raw[k] |= field << shift
// ----------------------------------------------------------

template <int kWidth>
void UnpackField(const std::byte* HWY_RESTRICT in, int shift, uint32_t* HWY_RESTRICT raw) {
  const DU du;
  constexpr int64_t kPerWord = 32 / kWidth;
  const VU mask = hn::Set(du, (1u << kWidth) - 1);
  for (int64_t group = 0; group < kRunElems; group += 16 * kPerWord, in += 64) {
    for (int64_t lane = 0; lane < 16; lane += kLanes) {
      const VU words = LoadWords(in + 4 * lane);
      for (int64_t j = 0; j < kPerWord; ++j) {
        const VU field = hn::And(hn::ShiftRightSame(words, static_cast<int>(kWidth * j)), mask);
        uint32_t* to = raw + group + 16 * j + lane;
        // The widest field comes first and initialises the run.
        const VU before = shift == 0 ? hn::Zero(du) : hn::Load(du, to);
        hn::Store(hn::Or(before, hn::ShiftLeftSame(field, shift)), du, to);
      }
    }
  }
}

void UnpackBits(const std::byte* HWY_RESTRICT in, int shift, uint32_t* HWY_RESTRICT raw) {
  const DU du;
  const VU bit = hn::Set(du, 1u << shift);
  for (int64_t k = 0; k < kRunElems; k += 32) {
    uint32_t word;
    hwy::CopyBytes<4>(in + k / 8, &word);
    for (int64_t lane = 0; lane < 32; lane += kLanes) {
      uint32_t* to = raw + k + lane;
      const VU set = hn::IfThenElseZero(MaskOfBits(word, lane), bit);
      hn::Store(hn::Or(hn::Load(du, to), set), du, to);
    }
  }
}

void UnpackRun(int bits, const std::byte* in, uint32_t* raw) {
  LevelField fields[3];
  const int count = LevelFields(bits, fields);
  for (int f = 0; f < count; ++f) {
    const auto [width, shift] = fields[f];
    if (width == 8) UnpackField<8>(in, shift, raw);
    if (width == 4) UnpackField<4>(in, shift, raw);
    if (width == 2) UnpackField<2>(in, shift, raw);
    if (width == 1) UnpackBits(in, shift, raw);
    in += 32 * width;
  }
}

// --- encoding -----------------------------------------------------------------------------------

struct Quantizer {
  VF inverse, unit;

  template <Rounding kRounding>
  HWY_INLINE VI Level(VF p, const uint16_t* dither) const {
    const VI rounded = hn::NearestInt(hn::Mul(p, inverse));
    if constexpr (kRounding == Rounding::kNearest) return rounded;
    const VI random = hn::PromoteTo(DI(), hn::LoadU(DU16(), dither));
    return hn::ShiftRight<16>(hn::Add(rounded, random));
  }
};

struct Run {
  const float* p;
  const uint16_t* dither;
  float* e_out;
  int32_t* levels;
};

template <Rounding kRounding>
HWY_INLINE void QuantizeRun(const Quantizer& q, const Run& run, SquareSums* sums) {
  const DF df;
  SquareSums local = *sums;
  for (int64_t i = 0; i < kRunElems; i += kLanes) {
    const VF p = hn::Load(df, run.p + i);
    const VI level = q.Level<kRounding>(p, run.dither + i);
    const VF error = hn::Sub(p, hn::Mul(hn::ConvertTo(df, level), q.unit));
    hn::Store(level, DI(), run.levels + i);
    hn::StoreU(error, df, run.e_out + i);
    local.Add(p, error);
  }
  *sums = local;
}

// One block whose scale is plain: pre is 1, and `p` holds its inputs.
void EncodePlain(const QsgdShape& shape, const EncodeJob& job, uint32_t absmax_bits,
                 const float* p) {
  const QsgdScale s = MakeQsgdScale(shape, absmax_bits);
  const Quantizer q = {hn::Set(DF(), s.inverse), hn::Set(DF(), s.unit)};
  hwy::CopyBytes<4>(&s.scale, job.out);
  std::byte* out = job.out + 4;
  alignas(64) int32_t levels[kRunElems];
  alignas(64) uint16_t dither[kRunElems];
  alignas(64) float errors[kRunElems];
  const bool streams = StreamsResidual(job);
  SquareSums sums(absmax_bits);
  for (int64_t first = 0; first < shape.block; first += kRunElems) {
    float* e_out = streams ? errors : ResidualOut(job, first, errors);
    const Run run = {p + first, dither, e_out, levels};
    if (shape.rounding == Rounding::kStochastic) {
      FillDither(job.dither, (job.dither.first_elem + first) / kDitherGroupElems, dither);
      QuantizeRun<Rounding::kStochastic>(q, run, &sums);
    } else {
      QuantizeRun<Rounding::kNearest>(q, run, &sums);
    }
    if (streams) StoreResidual(job, first, errors);
    PackRun(shape.bits, levels, out);
    out += 32 * shape.bits;
  }
  sums.AddTo(job.stats);
  NoteAbsmax(absmax_bits, job.stats);
}

// All inputs are zero, and so is what is kept back. Sparse gradients have many such
// blocks.
void EncodeZero(const QsgdShape& shape, const EncodeJob& job, const float* p) {
  std::memset(job.out, 0, static_cast<size_t>(QsgdBlockBytes(shape)));
  for (int64_t i = 0; i < shape.block; i += kRunElems) StoreResidual(job, i, p + i);
}

void QsgdEncode(const QsgdShape& shape, const EncodeJob& job) {
  const int64_t whole = job.elems - job.elems % shape.block;
  const int64_t block_bytes = QsgdBlockBytes(shape);
  alignas(64) float p[kQsgdMaxBlock];
  for (int64_t first = 0; first < whole; first += shape.block) {
    const EncodeJob block = job.Sub(first, shape.block, first / shape.block * block_bytes);
    uint32_t absmax_bits = 0;
    for (int64_t i = 0; i < shape.block; i += kRunElems) {
      const uint32_t bits = LoadRun(block, i, p + i);
      absmax_bits = bits > absmax_bits ? bits : absmax_bits;
    }
    if (absmax_bits >= kPlainBegin && absmax_bits < kPlainEnd) {
      EncodePlain(shape, block, absmax_bits, p);
    } else if (absmax_bits == 0) {
      EncodeZero(shape, block, p);
    } else {
      QsgdEncodeRef(shape, block);
    }
  }
  if (StreamsResidual(job)) hwy::FlushStream();
  if (whole == job.elems) return;
  QsgdEncodeRef(shape, job.Sub(whole, job.elems - whole, whole / shape.block * block_bytes));
}

// --- decoding -----------------------------------------------------------------------------------

// Levels of one run -> output. False: a level is out of range.
template <class Emit>
HWY_INLINE bool EmitRun(const QsgdShape& shape, const uint32_t* raw, VF unit, const Emit& emit,
                        int64_t first) {
  const DI di;
  const int unused = 32 - shape.bits;
  VI lowest = hn::Zero(di);
  for (int64_t i = 0; i < kRunElems; i += kLanes) {
    const VI shifted = hn::BitCast(di, hn::ShiftLeftSame(hn::Load(DU(), raw + i), unused));
    const VI level = hn::ShiftRightSame(shifted, unused);
    lowest = hn::Min(lowest, level);
    emit(hn::Mul(hn::ConvertTo(DF(), level), unit), first + i);
  }
  return hn::AllFalse(di, hn::Lt(lowest, hn::Set(di, -shape.levels())));
}

template <class Emit>
bool DecodeBlocks(const QsgdShape& shape, const DecodeJob& job) {
  const int64_t whole = job.elems - job.elems % shape.block;
  const int64_t block_bytes = QsgdBlockBytes(shape);
  const Emit emit(job);
  alignas(64) uint32_t raw[kRunElems];
  const std::byte* in = job.payload;
  for (int64_t first = 0; first < whole; first += shape.block, in += block_bytes) {
    uint32_t scale_bits;
    hwy::CopyBytes<4>(in, &scale_bits);
    if (scale_bits == 0 && !AllZero(in, block_bytes)) return false;
    if (!IsQsgdScale(scale_bits)) {
      if (!QsgdDecodeRef(shape, job.Sub(first, shape.block, in - job.payload))) return false;
      continue;
    }
    float scale;
    hwy::CopyBytes<4>(&scale_bits, &scale);
    const VF unit = hn::Set(DF(), QsgdUnit(shape, scale));
    for (int64_t i = 0; i < shape.block; i += kRunElems) {
      const std::byte* run = in + 4 + i / kRunElems * 32 * shape.bits;
      PrefetchAhead(run);
      UnpackRun(shape.bits, run, raw);
      if (!EmitRun(shape, raw, unit, emit, first + i)) return false;
    }
  }
  if (whole == job.elems) return true;
  return QsgdDecodeRef(shape, job.Sub(whole, job.elems - whole, in - job.payload));
}

bool QsgdDecode(const QsgdShape& shape, const DecodeJob& job) {
  if (job.to == DecodeTo::kAdd) return DecodeBlocks<EmitAdd>(shape, job);
  return StoreAs(job.dtype, [&]<typename Emit>() { return DecodeBlocks<Emit>(shape, job); });
}

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<QsgdKernels> kTable = {
    {QsgdKernels{QsgdEncodeRef, QsgdDecodeRef},
     {HWY_CHOOSE_SSE4(QsgdEncode), HWY_CHOOSE_SSE4(QsgdDecode)},
     {HWY_CHOOSE_AVX2(QsgdEncode), HWY_CHOOSE_AVX2(QsgdDecode)},
     {HWY_CHOOSE_AVX3(QsgdEncode), HWY_CHOOSE_AVX3(QsgdDecode)}},
    [](const QsgdKernels& k) { return k.encode != nullptr; }};

}  // namespace

const QsgdKernels& ActiveQsgdKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
