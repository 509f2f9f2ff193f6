// Tiles of a matrix, once per Highway target. Include after hwy/foreach_target.h.
//
// The matrix is read in tiles of kBlockRows by kColumnPad elements. A tile is formed once, in
// first-level cache, where all columns of the factors use it. It is small, so that memory fetches
// what was asked for ahead while the tile is computed with: 16 x 256 took half as long again. Rows
// and columns behind the matrix's end are computed like others and not stored.
#include <algorithm>
#include <bit>
#include <cmath>

#include "compress/kernels/lowrank/lowrank_kernels.h"
#include "compress/kernels/run-inl.h"
#include "compress/kernels/scalar_ref.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_TILE_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_TILE_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_TILE_INL_H_
#endif

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {

// Rows of which kColumnPad elements are a tile's, aligned to 64 bytes.
struct TileRows {
  float* first;
  int64_t stride;

  float* operator[](int64_t b) const { return first + b * stride; }
};

class TileValues {
 public:
  TileRows rows() { return {values_, kColumnPad}; }

 private:
  alignas(64) float values_[kBlockRows * kColumnPad] = {};
};

// A piece of the matrix: `rows` by `cols` elements from (row, col) on.
struct Tile {
  int64_t row, col, rows, cols;
};

inline Tile TileAt(const LowRankJob& job, int64_t row, int64_t col) {
  return {row, col, std::min(kBlockRows, job.rows - row), std::min(kColumnPad, job.cols - col)};
}

// Calls fn with each tile, left to right, then down.
template <class Fn>
HWY_INLINE void ForEachTile(const LowRankJob& job, Fn fn) {
  for (int64_t row = 0; row < job.rows; row += kBlockRows) {
    for (int64_t col = 0; col < job.cols; col += kColumnPad) fn(TileAt(job, row, col));
  }
}

// The matrix's elements of the tile; zeros behind its columns. Returns the bits of the largest
// magnitude: at or above kInfBits where one is not finite.
template <Prefetch kPrefetch = Prefetch::kAhead>
HWY_INLINE uint32_t LoadTile(const LowRankJob& job, const Tile& tile, TileRows m) {
  const int64_t whole = tile.cols - tile.cols % 16;
  uint32_t absmax_bits = 0;
  for (int64_t b = 0; b < tile.rows; ++b) {
    const int64_t first = (tile.row + b) * job.cols + tile.col;
    absmax_bits = std::max(absmax_bits, LoadInput<kPrefetch>(job.m, first, whole, m[b]));
    for (int64_t i = whole; i < tile.cols; ++i) {
      m[b][i] = ref::Input(job.m, first + i);
      absmax_bits = std::max(absmax_bits, std::bit_cast<uint32_t>(std::fabs(m[b][i])));
    }
    std::fill(m[b] + tile.cols, m[b] + kColumnPad, 0.0f);
  }
  return absmax_bits;
}

template <class Store>
HWY_INLINE void StoreTile(const LowRankJob& job, const Tile& tile, TileRows values) {
  const int64_t whole = tile.cols - tile.cols % kLanes;
  for (int64_t b = 0; b < tile.rows; ++b) {
    float* to = job.m.e_out + (tile.row + b) * job.cols + tile.col;
    const float* from = values[b];
    for (int64_t i = 0; i < whole; i += kLanes) Store()(hn::Load(DF(), from + i), to + i);
    std::copy(from + whole, from + tile.cols, to + whole);
  }
}

// Of what the tile has of the matrix.
HWY_INLINE uint32_t AbsmaxBits(const Tile& tile, TileRows values) {
  const DU du;
  VU absmax = hn::Zero(du);
  for (int64_t b = 0; b < tile.rows; ++b) {
    for (int64_t i = 0; i < kColumnPad; i += kLanes) {
      const VF magnitude = hn::Abs(hn::Load(DF(), values[b] + i));
      absmax = hn::Max(absmax, hn::BitCast(du, magnitude));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(du, absmax));
}

// Of a finite tile with this largest magnitude.
HWY_INLINE double EnergyOfTile(const Tile& tile, TileRows values, uint32_t absmax_bits) {
  SquareSums sums(absmax_bits);
  for (int64_t b = 0; b < tile.rows; ++b) {
    for (int64_t i = 0; i < kColumnPad; i += kLanes) {
      sums.AddValue(hn::Load(DF(), values[b] + i));
    }
  }
  EncodeStats stats;
  sums.AddTo(&stats);
  return stats.sum_p2;
}

HWY_INLINE void CountInput(const Tile& tile, TileRows m, uint32_t absmax_bits, EncodeStats* stats) {
  if (absmax_bits >= kInfBits) {
    ++stats->nonfinite;
    return;
  }
  NoteAbsmax(absmax_bits, stats);
  stats->sum_p2 += EnergyOfTile(tile, m, absmax_bits);
}

HWY_INLINE void CountError(const Tile& tile, TileRows error, EncodeStats* stats) {
  const uint32_t absmax_bits = AbsmaxBits(tile, error);
  if (absmax_bits < kInfBits) stats->sum_err2 += EnergyOfTile(tile, error, absmax_bits);
}

// A tile of M, kept and counted where that is asked for.
template <class Store>
HWY_INLINE void TakeTile(const LowRankJob& job, const Tile& tile, TileRows m) {
  const uint32_t absmax_bits = LoadTile(job, tile, m);
  if (job.m.e_out != nullptr) StoreTile<Store>(job, tile, m);
  if (job.m.stats != nullptr) CountInput(tile, m, absmax_bits, job.m.stats);
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();

#endif  // GW_SIMD_TARGET
#endif  // include guard per target
