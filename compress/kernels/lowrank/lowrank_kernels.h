// The passes over a matrix and over its factors' columns, which SIMD targets do.
#ifndef GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_KERNELS_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"
#include "compress/kernels/lowrank/lowrank.h"

namespace gradwire {

// A factor is handled column by column: columns lie one after the other, zeros fill them up to a
// multiple of this. Kernels need no tails then.
inline constexpr int64_t kColumnPad = 64;
// Columns that lie whole pages apart share the sets of a first-level cache.
inline constexpr int64_t kPageElems = 1024;
inline constexpr int64_t PaddedColumn(int64_t elems) {
  const int64_t padded = (elems + kColumnPad - 1) / kColumnPad * kColumnPad;
  return padded % kPageElems == 0 ? padded + kColumnPad : padded;
}

// Rows whose products are summed up before they join the sum of all.
inline constexpr int64_t kBlockRows = 4;

struct LowRankJob {
  InputJob m;
  int64_t rows, cols;
  int rank;
  const float* p;          // rows x rank
  const float* q_columns;  // rank columns of PaddedColumn(cols)
};

struct LowRankKernels {
  // p = M Q. Reads q_columns; writes M to m.e_out unless that is null. Unless m.stats is null, adds
  // there sum_p2 and absmax; where something is not finite, at least 1 to nonfinite, and the other
  // two are undefined.
  void (*multiply_by_q)(const LowRankJob&, float* p);
  // Both that and subtract_product, with their bits: a row of M is still in cache when its row of P
  // is known. m.e_out may be m.e_in; m.stats as of multiply_by_q. `rows` has room for kBlockRows of
  // PaddedColumn(cols) elements, aligned to 64 bytes.
  void (*multiply_and_subtract)(const LowRankJob&, float* rows, float* p);
  // q_columns += M^T P. Reads p. What is between cols and the padding's end becomes undefined.
  // m.e_out and m.stats as of multiply_by_q.
  void (*multiply_by_p)(const LowRankJob&, float* q_columns);
  // m.e_out = M - P Q^T. Unless m.stats is null, adds their squares to its sum_err2 as far as they
  // are finite.
  void (*subtract_product)(const LowRankJob&);
  // out = P Q^T * out.out_scale; m is not used.
  void (*store_product)(const LowRankJob&, const DecodeJob& out);

  // Of two padded columns.
  float (*dot)(const float* a, const float* b, int64_t elems);
  // y -= factor * x.
  void (*subtract)(float factor, const float* x, int64_t elems, float* y);
};

// The reference.
void MultiplyByQRef(const LowRankJob& job, float* p);
void MultiplyAndSubtractRef(const LowRankJob& job, float* rows, float* p);
void MultiplyByPRef(const LowRankJob& job, float* q_columns);
void SubtractProductRef(const LowRankJob& job);
void StoreProductRef(const LowRankJob& job, const DecodeJob& out);
float DotRef(const float* a, const float* b, int64_t elems);
void SubtractRef(float factor, const float* x, int64_t elems, float* y);

// The kernels of the active SIMD target.
const LowRankKernels& ActiveLowRankKernels();

// Between rows x rank and padded columns.
void SplitColumns(const float* factor, int64_t rows, int rank, float* columns);
void JoinColumns(const float* columns, int64_t rows, int rank, float* factor);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_KERNELS_H_
