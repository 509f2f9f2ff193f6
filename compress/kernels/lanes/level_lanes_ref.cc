// The specification of levels in packed lanes: plain loops, element by element.
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "compress/kernels/lanes/lane_ref.h"
#include "compress/kernels/lanes/level_lanes.h"
#include "compress/kernels/qsgd/qsgd_level_ref.h"
#include "compress/kernels/qsgd/qsgd_scale.h"
#include "compress/kernels/sum_lanes.h"

namespace gradwire {
namespace {

// The root mean square, of values brought near 1 first, so that no square overflows or vanishes.
float RootMeanSquare(const float* p, int64_t elems, uint32_t absmax_bits) {
  const LevelNorm norm = MakeLevelNorm(absmax_bits);
  float lanes[16] = {};
  for (int64_t i = 0; i < elems; ++i) {
    const float x = p[i] * norm.scale;
    lanes[i % 16] += x * x;
  }
  return std::sqrt(SumLanes(lanes) / static_cast<float>(elems)) * norm.unscale;
}

uint32_t MagnitudeOf(const LevelLanes& shape, const InputJob& job) {
  float p[kMaxLaneBlock];
  const uint32_t absmax_bits = ref::LoadBlock(job, p);
  if (shape.clip == 0 || absmax_bits >= kInfBits || absmax_bits < kMinNormalBits)
    return absmax_bits;
  const float bound = shape.clip * RootMeanSquare(p, job.elems, absmax_bits);
  return std::min(absmax_bits, std::bit_cast<uint32_t>(bound));
}

// A block that carries no levels: every field is the bias.
void EncodeEmpty(const LevelLanes& shape, const EncodeJob& job, const float* p, bool finite) {
  for (int64_t i = 0; i < job.elems; ++i) {
    ref::StoreField(shape.lanes, static_cast<uint32_t>(shape.bias()), i, job.out);
    if (finite) {
      ref::Finish(job, i, p[i], 0.0f);
    } else {
      ref::FinishNonFinite(job, i, p[i]);
    }
  }
}

void EncodeBlock(const LevelLanes& shape, const EncodeJob& job, uint32_t agreed) {
  float p[kMaxLaneBlock];
  const bool finite = ref::LoadBlock(job, p) < kInfBits && agreed < kInfBits;
  std::memset(job.out, 0, 4 * shape.lanes.words(job.elems));
  if (!finite || agreed < kMinNormalBits) return EncodeEmpty(shape, job, p, finite);
  const QsgdScale s = MakeQsgdScale(shape.levels, agreed);
  const auto bound = std::bit_cast<float>(agreed);
  uint16_t dither[kMaxLaneBlock] = {};
  if (shape.levels.rounding == Rounding::kStochastic) ref::FillDither(job, 0, job.elems, dither);
  for (int64_t i = 0; i < job.elems; ++i) {
    const float clipped = std::min(std::max(p[i], -bound), bound);
    const int32_t level = ref::LevelOf(shape.levels, s, clipped, dither[i]);
    ref::Finish(job, i, p[i], static_cast<float>(level) * s.unit);
    ref::StoreField(shape.lanes, static_cast<uint32_t>(level + shape.bias()), i, job.out);
  }
}

bool DecodeBlock(const LevelLanes& shape, const DecodeJob& job, uint32_t agreed) {
  if (ref::HasStrayBits(shape.lanes, job.payload, job.elems)) return false;
  const bool nan = agreed >= kInfBits;
  const bool zero = agreed < kMinNormalBits;
  const float unit = nan || zero ? 0.0f : MakeQsgdScale(shape.levels, agreed).unit;
  const int32_t bias = shape.world_size * shape.bias();
  for (int64_t i = 0; i < job.elems; ++i) {
    const auto sum = static_cast<int32_t>(ref::LoadField(shape.lanes, job.payload, i));
    if (sum > shape.largest_sum()) return false;
    ref::Emit(job, i, nan ? std::bit_cast<float>(kNanBits) : static_cast<float>(sum - bias) * unit);
  }
  return true;
}

}  // namespace

void LevelMagnitudesRef(const LevelLanes& shape, const InputJob& job, uint32_t* magnitudes) {
  const int64_t block = shape.lanes.block;
  for (int64_t first = 0; first < job.elems; first += block) {
    const int64_t elems = std::min(block, job.elems - first);
    magnitudes[first / block] = MagnitudeOf(shape, job.Sub(first, elems));
  }
}

void LevelEncodeRef(const LevelLanes& shape, const EncodeJob& job, const uint32_t* agreed) {
  for (int64_t b = 0; b < shape.lanes.blocks(job.elems); ++b) {
    EncodeBlock(shape, BlockOf(shape.lanes, job, b), agreed[b]);
  }
}

bool LevelDecodeRef(const LevelLanes& shape, const DecodeJob& job, const uint32_t* agreed) {
  assert(job.to == DecodeTo::kStore);
  for (int64_t b = 0; b < shape.lanes.blocks(job.elems); ++b) {
    if (!DecodeBlock(shape, BlockOf(shape.lanes, job, b), agreed[b])) return false;
  }
  return true;
}

}  // namespace gradwire
