// Low-rank factors of a gradient matrix: the arithmetic of PowerSGD (Vogels et al., NeurIPS 2019)
// and ACP-SGD (Zhang et al., ICDCS 2023).
//
// M (rows x cols), P (rows x rank) and Q (cols x rank) are row-major, in host memory, aligned to
// their elements; 1 <= rank <= kLowRankMaxRank, and rows, cols >= 1. Nothing may overlap but where
// it is said. Each function is pure, allocates nothing and may run on any thread. Its results have
// the same bits on every SIMD target: every sum has one order of additions, which lowrank_ref.cc
// spells out. A NaN is always written as the same bits. `workspace` has LowRankWorkspaceBytes,
// aligned to 64 bytes; its contents are undefined before and after.
#ifndef GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_H_
#define GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/view.h"
#include "compress/payload_codec.h"

namespace gradwire {

inline constexpr int kLowRankMaxRank = 32;

// M = fl(grad * in_scale) + e_in, formed while it is read.
struct LowRankMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* grad = nullptr;  // rows * cols of dtype
  DType dtype = DType::kFloat32;    // float32, float16 or bfloat16
  float in_scale = 1.0f;
  const float* e_in = nullptr;  // rows * cols, or null: nothing is added
};

// P Q^T.
struct LowRankProduct {
  int rank = 0;
  const float* p = nullptr;
  const float* q = nullptr;
};

struct LowRankOutput {
  int64_t rows = 0;
  int64_t cols = 0;
  std::byte* data = nullptr;      // rows * cols of dtype
  DType dtype = DType::kFloat32;  // float32, float16 or bfloat16
  float scale = 1.0f;
};

// 4 * rank bytes for each row or column, whichever are more, rounded up to 64 of them, and 64 KiB,
// or four rows where they are more.
int64_t LowRankWorkspaceBytes(int64_t rows, int64_t cols, int rank);

// What one pass over M makes: a factor, and what it learns by the way.
struct LowRankFactorOut {
  float* factor = nullptr;  // P, rows * rank, or Q, cols * rank
  // M, rows * cols, or null; may be m.e_in. So that a later pass reads one array instead of grad
  // and e_in: {.grad = m_out} is the same matrix. Bits of a NaN are unspecified.
  float* m_out = nullptr;
  // Or null. absmax, nonfinite and, where all elements of M are finite, sum_p2 are added to.
  EncodeStats* stats = nullptr;
};

// P = M Q.
void MultiplyByQ(const LowRankMatrix& m, const float* q, int rank, Bytes workspace,
                 const LowRankFactorOut& out);

// Q = M^T P.
void MultiplyByP(const LowRankMatrix& m, const float* p, int rank, Bytes workspace,
                 const LowRankFactorOut& out);

struct LowRankSplit {
  float* p = nullptr;            // rows * rank
  float* e_out = nullptr;        // rows * cols; may be m.e_in or, of float32, m.grad, where `stats`
                                 // is null
  EncodeStats* stats = nullptr;  // as of LowRankFactorOut
};

// P = M Q and e_out = M - P Q^T in one pass, for a row of P needs that row of M only, which is
// still in cache: the bits of MultiplyByQ and SubtractProduct.
void MultiplyByQAndSubtract(const LowRankMatrix& m, const float* q, int rank, Bytes workspace,
                            const LowRankSplit& out);

// e_out = M - P Q^T, one pass over M. e_out may be m.e_in or, of float32, m.grad.
void SubtractProduct(const LowRankMatrix& m, const LowRankProduct& product, Bytes workspace,
                     float* e_out);

// The sum of the squares of M - P Q^T, as far as they are finite. May differ in the last bits
// between targets.
double EnergyOfDifference(const LowRankMatrix& m, const LowRankProduct& product, Bytes workspace);

// out = P Q^T * scale.
void StoreProduct(const LowRankProduct& product, Bytes workspace, const LowRankOutput& out);

// Makes the columns of P (rows x rank) orthonormal in place, by Gram-Schmidt done twice. A column
// that is zero, or depends on those before it up to rounding, becomes a pseudo-random vector made
// orthonormal in turn: equal on all ranks, since of `dither` only seed, tensor and step are used.
// Columns beyond `rows`, for which there is no room, become zero. Magnitudes do not matter: nothing
// overflows. Where an element is not finite, all become NaN.
void Orthonormalize(int64_t rows, int rank, const Dither& dither, Bytes workspace, float* p);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_LOWRANK_LOWRANK_H_
