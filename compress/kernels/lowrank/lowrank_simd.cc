// SIMD kernels for low-rank factors; lowrank_ref.cc says what they compute, bit for bit.
// lowrank_tile-inl.h says how the matrix is read.
#include <algorithm>
#include <cstring>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/lowrank/lowrank_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/sum_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/lowrank/lowrank_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/lowrank/lowrank_tile-inl.h"
#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

// Where the rows of `to` may be streamed.
bool MayStream(const LowRankJob& job, const void* to) {
  return job.m.tensor_elems >= kStreamElems && job.cols % kLanes == 0 &&
         reinterpret_cast<uintptr_t>(to) % (4 * kLanes) == 0;
}

// Likewise m.e_out, which is over none of the inputs then.
bool MayStreamMatrix(const LowRankJob& job) {
  const void* e_out = job.m.e_out;
  return e_out != nullptr && e_out != job.m.e_in && e_out != job.m.grad && MayStream(job, e_out);
}

// Vectors that a loop treats at once: their chains of additions hide each other's latency.
constexpr int64_t kUnroll = 4;
constexpr int64_t kStride = kUnroll * kLanes;
static_assert(kColumnPad % kStride == 0 && kBlockRows == kUnroll);

// The rows of P that belong to a block of rows, column by column; zeros behind the last row.
struct BlockP {
  float columns[kLowRankMaxRank][kBlockRows];
};

HWY_INLINE void LoadP(const LowRankJob& job, const Tile& tile, BlockP* p) {
  for (int c = 0; c < job.rank; ++c) {
    for (int64_t b = 0; b < kBlockRows; ++b) {
      p->columns[c][b] = b < tile.rows ? job.p[(tile.row + b) * job.rank + c] : 0.0f;
    }
  }
}

const float* QColumn(const LowRankJob& job, int c) {
  return job.q_columns + c * PaddedColumn(job.cols);
}

// --- P = M Q ------------------------------------------------------------------------------------

// The 16 lanes of each element of a block of P.
class BlockLanes {
 public:
  void Clear(int rank) { std::memset(lanes_, 0, static_cast<size_t>(rank) * sizeof lanes_[0]); }
  // A tile's part.
  HWY_INLINE void Add(const LowRankJob& job, const Tile& tile, TileRows m);
  // Their rows of P. Uses them up.
  void Store(const LowRankJob& job, const Tile& tile, float* p) {
    for (int64_t b = 0; b < tile.rows; ++b) {
      for (int c = 0; c < job.rank; ++c)
        p[(tile.row + b) * job.rank + c] = ref::CanonicalNan(SumLanes(lanes_[c][b]));
    }
  }

 private:
  alignas(64) float lanes_[kLowRankMaxRank][kBlockRows][16];
};

// One column of Q.
HWY_INLINE void AddRows(TileRows m, const float* HWY_RESTRICT q, float (*HWY_RESTRICT lanes)[16]) {
  const DF df;
  for (int64_t lane = 0; lane < 16; lane += kLanes) {
    VF s0 = hn::Load(df, lanes[0] + lane);
    VF s1 = hn::Load(df, lanes[1] + lane);
    VF s2 = hn::Load(df, lanes[2] + lane);
    VF s3 = hn::Load(df, lanes[3] + lane);
    for (int64_t i = lane; i < kColumnPad; i += 16) {
      const VF factor = hn::Load(df, q + i);
      s0 = hn::Add(s0, hn::Mul(hn::Load(df, m[0] + i), factor));
      s1 = hn::Add(s1, hn::Mul(hn::Load(df, m[1] + i), factor));
      s2 = hn::Add(s2, hn::Mul(hn::Load(df, m[2] + i), factor));
      s3 = hn::Add(s3, hn::Mul(hn::Load(df, m[3] + i), factor));
    }
    hn::Store(s0, df, lanes[0] + lane);
    hn::Store(s1, df, lanes[1] + lane);
    hn::Store(s2, df, lanes[2] + lane);
    hn::Store(s3, df, lanes[3] + lane);
  }
}

void BlockLanes::Add(const LowRankJob& job, const Tile& tile, TileRows m) {
  for (int c = 0; c < job.rank; ++c) AddRows(m, QColumn(job, c) + tile.col, lanes_[c]);
}

template <class Store>
void MultiplyByQWith(const LowRankJob& job, float* p) {
  TileValues m;
  BlockLanes sums;
  ForEachTile(job, [&](const Tile& tile) {
    if (tile.col == 0) sums.Clear(job.rank);
    TakeTile<Store>(job, tile, m.rows());
    sums.Add(job, tile, m.rows());
    if (tile.col + tile.cols == job.cols) sums.Store(job, tile, p);
  });
}

void MultiplyByQKernel(const LowRankJob& job, float* p) {
  if (MayStreamMatrix(job)) {
    MultiplyByQWith<StoreStreamed>(job, p);
    hwy::FlushStream();
  } else {
    MultiplyByQWith<StoreCached>(job, p);
  }
}

// --- Q = M^T P ----------------------------------------------------------------------------------

// Adds the sum over the tile's rows to kUnroll vectors of a column of Q; `m` is the tile's first
// row there.
HWY_INLINE void AddColumns(const float* HWY_RESTRICT m, const float* HWY_RESTRICT p, int64_t rows,
                           float* HWY_RESTRICT q) {
  const DF df;
  VF s0 = hn::Zero(df);
  VF s1 = hn::Zero(df);
  VF s2 = hn::Zero(df);
  VF s3 = hn::Zero(df);
  for (int64_t b = 0; b < rows; ++b, m += kColumnPad) {
    const VF factor = hn::Set(df, p[b]);
    s0 = hn::Add(s0, hn::Mul(hn::Load(df, m), factor));
    s1 = hn::Add(s1, hn::Mul(hn::Load(df, m + kLanes), factor));
    s2 = hn::Add(s2, hn::Mul(hn::Load(df, m + 2 * kLanes), factor));
    s3 = hn::Add(s3, hn::Mul(hn::Load(df, m + 3 * kLanes), factor));
  }
  hn::Store(hn::Add(hn::Load(df, q), s0), df, q);
  hn::Store(hn::Add(hn::Load(df, q + kLanes), s1), df, q + kLanes);
  hn::Store(hn::Add(hn::Load(df, q + 2 * kLanes), s2), df, q + 2 * kLanes);
  hn::Store(hn::Add(hn::Load(df, q + 3 * kLanes), s3), df, q + 3 * kLanes);
}

template <class Store>
void MultiplyByPWith(const LowRankJob& job, float* q_columns) {
  TileValues m;
  BlockP p;
  ForEachTile(job, [&](const Tile& tile) {
    if (tile.col == 0) LoadP(job, tile, &p);
    TakeTile<Store>(job, tile, m.rows());
    for (int c = 0; c < job.rank; ++c) {
      float* q = q_columns + c * PaddedColumn(job.cols) + tile.col;
      for (int64_t i = 0; i < kColumnPad; i += kStride) {
        AddColumns(m.rows()[0] + i, p.columns[c], tile.rows, q + i);
      }
    }
  });
}

void MultiplyByPKernel(const LowRankJob& job, float* q_columns) {
  if (MayStreamMatrix(job)) {
    MultiplyByPWith<StoreStreamed>(job, q_columns);
    hwy::FlushStream();
  } else {
    MultiplyByPWith<StoreCached>(job, q_columns);
  }
}

// --- P Q^T --------------------------------------------------------------------------------------

// Calls emit(vector, column) with row b of the tile of P Q^T.
template <class Emit>
HWY_INLINE void ProductRow(const LowRankJob& job, const BlockP& p, const Tile& tile, int64_t b,
                           Emit emit) {
  const DF df;
  for (int64_t i = 0; i < kColumnPad; i += kStride) {
    VF s0 = hn::Zero(df);
    VF s1 = hn::Zero(df);
    VF s2 = hn::Zero(df);
    VF s3 = hn::Zero(df);
    for (int c = 0; c < job.rank; ++c) {
      const float* q = QColumn(job, c) + tile.col + i;
      const VF factor = hn::Set(df, p.columns[c][b]);
      s0 = hn::Add(s0, hn::Mul(factor, hn::Load(df, q)));
      s1 = hn::Add(s1, hn::Mul(factor, hn::Load(df, q + kLanes)));
      s2 = hn::Add(s2, hn::Mul(factor, hn::Load(df, q + 2 * kLanes)));
      s3 = hn::Add(s3, hn::Mul(factor, hn::Load(df, q + 3 * kLanes)));
    }
    emit(s0, i);
    emit(s1, i + kLanes);
    emit(s2, i + 2 * kLanes);
    emit(s3, i + 3 * kLanes);
  }
}

// Row b of the tile of M, less that of P Q^T, in its place or, where the tile has all of its
// columns, in e_out.
template <class Store>
HWY_INLINE void SubtractRow(const LowRankJob& job, const BlockP& p, const Tile& tile, int64_t b,
                            TileRows m, float* to) {
  const DF df;
  const float* from = m[b];
  ProductRow(job, p, tile, b, [&](VF product, int64_t i) {
    Store()(CanonicalNan(hn::Sub(hn::Load(df, from + i), product)), to + i);
  });
}

template <class Store>
void SubtractProductWith(const LowRankJob& job) {
  TileValues m;
  BlockP p;
  ForEachTile(job, [&](const Tile& tile) {
    if (tile.col == 0) LoadP(job, tile, &p);
    const TileRows rows = m.rows();
    LoadTile(job, tile, rows);
    for (int64_t b = 0; b < tile.rows; ++b)
      SubtractRow<StoreCached>(job, p, tile, b, rows, rows[b]);
    StoreTile<Store>(job, tile, rows);
    if (job.m.stats != nullptr) CountError(tile, rows, job.m.stats);
  });
}

void SubtractProductKernel(const LowRankJob& job) {
  if (MayStreamMatrix(job)) {
    SubtractProductWith<StoreStreamed>(job);
    hwy::FlushStream();
  } else {
    SubtractProductWith<StoreCached>(job);
  }
}

// --- P = M Q, and M - P Q^T ----------------------------------------------------------------------

// Into second-level cache, what `array` has where the tile below this one is.
HWY_INLINE void FetchTileBelow(const LowRankJob& job, const Tile& tile, const void* array,
                               int64_t elem_bytes) {
  constexpr int64_t kLineBytes = 64;
  if (array == nullptr) return;
  const int64_t first_row = tile.row + kBlockRows;
  for (int64_t row = first_row; row < std::min(first_row + kBlockRows, job.rows); ++row) {
    const char* line = static_cast<const char*>(array) + (row * job.cols + tile.col) * elem_bytes;
    const char* const end = line + tile.cols * elem_bytes;
    for (; line < end; line += kLineBytes) __builtin_prefetch(line, 0, 2);
  }
}

// A block of rows at a time: it is read and multiplied, then the product is subtracted. All the
// while memory is fetched for the next block: gradients in the first half, which writes nothing to
// memory, and residuals in the second.
template <class Store>
void MultiplyAndSubtractWith(const LowRankJob& job, float* rows, float* p) {
  const int64_t stride = PaddedColumn(job.cols);
  std::fill_n(rows, kBlockRows * stride, 0.0f);
  BlockLanes sums;
  BlockP block_p;
  LowRankJob subtracting = job;
  subtracting.p = p;
  for (int64_t row = 0; row < job.rows; row += kBlockRows) {
    sums.Clear(job.rank);
    for (int64_t col = 0; col < job.cols; col += kColumnPad) {
      const Tile tile = TileAt(job, row, col);
      const TileRows m = {rows + col, stride};
      FetchTileBelow(job, tile, job.m.grad, SizeOf(job.m.dtype));
      const uint32_t absmax_bits = LoadTile<Prefetch::kNone>(job, tile, m);
      if (job.m.stats != nullptr) CountInput(tile, m, absmax_bits, job.m.stats);
      sums.Add(job, tile, m);
    }
    const Tile block = TileAt(job, row, 0);
    sums.Store(job, block, p);
    LoadP(subtracting, block, &block_p);
    for (int64_t col = 0; col < job.cols; col += kColumnPad) {
      const Tile tile = TileAt(job, row, col);
      const TileRows m = {rows + col, stride};
      FetchTileBelow(job, tile, job.m.e_in, sizeof(float));
      const bool whole = tile.cols == kColumnPad;
      for (int64_t b = 0; b < tile.rows; ++b) {
        if (whole) {
          float* const e_out = job.m.e_out + (tile.row + b) * job.cols + tile.col;
          SubtractRow<Store>(job, block_p, tile, b, m, e_out);
        } else {
          SubtractRow<StoreCached>(job, block_p, tile, b, m, m[b]);
        }
      }
      if (!whole) StoreTile<Store>(job, tile, m);
    }
  }
}

void MultiplyAndSubtractKernel(const LowRankJob& job, float* rows, float* p) {
  if (MayStreamMatrix(job)) {
    MultiplyAndSubtractWith<StoreStreamed>(job, rows, p);
    hwy::FlushStream();
  } else {
    MultiplyAndSubtractWith<StoreCached>(job, rows, p);
  }
}

// --- output -------------------------------------------------------------------------------------

struct EmitStreamed {
  float* out;
  VF scale;

  explicit HWY_INLINE EmitStreamed(const DecodeJob& job)
      : out(reinterpret_cast<float*>(job.out)), scale(hn::Set(DF(), job.out_scale)) {}
  HWY_INLINE void operator()(VF v, int64_t i) const {
    hn::Stream(CanonicalNan(hn::Mul(v, scale)), DF(), out + i);
  }
};

template <class Emit>
void StoreProductWith(const LowRankJob& job, const DecodeJob& out) {
  const Emit emit(out);
  BlockP p;
  alignas(64) float product[kColumnPad];
  ForEachTile(job, [&](const Tile& tile) {
    if (tile.col == 0) LoadP(job, tile, &p);
    const int64_t whole = tile.cols - tile.cols % kLanes;
    for (int64_t b = 0; b < tile.rows; ++b) {
      const int64_t first = (tile.row + b) * job.cols + tile.col;
      if (tile.cols == kColumnPad) {
        ProductRow(job, p, tile, b, [&](VF v, int64_t i) { emit(v, first + i); });
        continue;
      }
      ProductRow(job, p, tile, b, [&](VF v, int64_t i) { hn::Store(v, DF(), product + i); });
      for (int64_t i = 0; i < whole; i += kLanes) emit(hn::Load(DF(), product + i), first + i);
      for (int64_t i = whole; i < tile.cols; ++i) ref::Emit(out, first + i, product[i]);
    }
  });
}

void StoreProductKernel(const LowRankJob& job, const DecodeJob& out) {
  switch (out.dtype) {
    case DType::kFloat16: return StoreProductWith<EmitStore<DType::kFloat16>>(job, out);
    case DType::kBfloat16: return StoreProductWith<EmitStore<DType::kBfloat16>>(job, out);
    default: break;
  }
  if (!MayStream(job, out.out)) return StoreProductWith<EmitStore<DType::kFloat32>>(job, out);
  StoreProductWith<EmitStreamed>(job, out);
  hwy::FlushStream();
}

// --- columns ------------------------------------------------------------------------------------

float DotKernel(const float* a, const float* b, int64_t elems) {
  const DF df;
  alignas(64) float lanes[16];
  for (int64_t lane = 0; lane < 16; lane += kLanes) {
    VF sum = hn::Zero(df);
    for (int64_t i = lane; i < elems; i += 16) {
      sum = hn::Add(sum, hn::Mul(hn::Load(df, a + i), hn::Load(df, b + i)));
    }
    hn::Store(sum, df, lanes + lane);
  }
  return SumLanes(lanes);
}

void SubtractKernel(float factor, const float* x, int64_t elems, float* y) {
  const DF df;
  const VF factors = hn::Set(df, factor);
  for (int64_t i = 0; i < elems; i += kLanes) {
    hn::Store(hn::Sub(hn::Load(df, y + i), hn::Mul(factors, hn::Load(df, x + i))), df, y + i);
  }
}

constexpr LowRankKernels kKernels = {MultiplyByQKernel,  MultiplyAndSubtractKernel,
                                     MultiplyByPKernel,  SubtractProductKernel,
                                     StoreProductKernel, DotKernel,
                                     SubtractKernel};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr LowRankKernels kReference = {MultiplyByQRef,     MultiplyAndSubtractRef, MultiplyByPRef,
                                       SubtractProductRef, StoreProductRef,        DotRef,
                                       SubtractRef};

constexpr KernelTable<const LowRankKernels*> kTable = {
    {&kReference, HWY_CHOOSE_SSE4(kKernels), HWY_CHOOSE_AVX2(kKernels), HWY_CHOOSE_AVX3(kKernels)},
    [](const LowRankKernels* const& kernels) { return kernels != nullptr; }};

}  // namespace

const LowRankKernels& ActiveLowRankKernels() { return *kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
