// Gram-Schmidt, column by column. One pass leaves errors of rounding that grow with what is
// cancelled; a second one removes them ("twice is enough", Kahan and Parlett).
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/numeric.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "compress/kernels/lowrank/lowrank_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {
namespace {

// What is left of a column, as a share of it, below which it is mostly rounding: about eight ulps.
constexpr float kDependent = 0x1p-20f;

float ScaleFor(int exponent) { return std::ldexp(1.0f, exponent); }

// Scales by the power of two that makes the largest magnitude 1 to 2, so that squares neither
// overflow nor vanish. False where all are zero.
bool BringNearOne(float* column, int64_t elems) {
  float largest = 0;
  for (int64_t i = 0; i < elems; ++i) largest = std::max(largest, std::fabs(column[i]));
  if (largest == 0) return false;
  // In two factors: up to 2^149 is needed, which no float is.
  const int exponent = -std::ilogb(largest);
  const float first = ScaleFor(exponent / 2);
  const float second = ScaleFor(exponent - exponent / 2);
  for (int64_t i = 0; i < elems; ++i) column[i] = column[i] * first * second;
  return true;
}

float Norm(const float* column, int64_t padded) {
  return std::sqrt(ActiveLowRankKernels().dot(column, column, padded));
}

// Makes column c orthonormal to those before it. False where nothing but rounding is left of it.
bool OrthonormalizeColumn(float* columns, int64_t padded, int c) {
  const LowRankKernels& kernels = ActiveLowRankKernels();
  float* column = columns + c * padded;
  if (!BringNearOne(column, padded)) return false;
  const float whole = Norm(column, padded);
  for (int pass = 0; pass < 2; ++pass) {
    for (int k = 0; k < c; ++k) {
      const float* unit = columns + k * padded;
      kernels.subtract(kernels.dot(unit, column, padded), unit, padded, column);
    }
  }
  const float left = Norm(column, padded);
  if (left < kDependent * whole) return false;
  for (int64_t i = 0; i < padded; ++i) column[i] /= left;
  return true;
}

// Uniform in (-1, 1) and never zero. `draw` counts the vectors of one call: each has counters of
// its own, which do not run out, for there are no more vectors than columns, and no tensor has more
// elements than kDitherMaxElems.
void FillRandom(const Dither& shared, int64_t draw, float* column, int64_t rows) {
  const int64_t groups = (rows + kDitherGroupElems - 1) / kDitherGroupElems;
  for (int64_t g = 0; g < groups; ++g) {
    uint16_t halves[kDitherGroupElems];
    DitherHalves(shared, draw * groups + g, halves);
    const int64_t first = g * kDitherGroupElems;
    for (int64_t i = first; i < std::min(first + kDitherGroupElems, rows); ++i) {
      column[i] = (static_cast<float>(halves[i - first]) - 32767.5f) * 0x1p-15f;
    }
  }
}

}  // namespace

void Orthonormalize(int64_t rows, int rank, const Dither& dither, Bytes workspace, float* p) {
  if (CountNonFinite(FloatView(p, rows * rank)) > 0) {
    std::fill_n(p, rows * rank, std::bit_cast<float>(kNanBits));
    return;
  }
  const Dither shared = {.seed = dither.seed,
                         .purpose = DitherPurpose::kShared,
                         .tensor = dither.tensor,
                         .step = dither.step};
  auto* columns = reinterpret_cast<float*>(workspace.data);
  const int64_t padded = PaddedColumn(rows);
  SplitColumns(p, rows, rank, columns);
  int64_t draws = 0;
  for (int c = 0; c < rank; ++c) {
    if (c >= rows) {
      std::fill_n(columns + c * padded, padded, 0.0f);
      continue;
    }
    // A random vector depends on fewer than `rows` others with a probability below 2^-15.
    while (!OrthonormalizeColumn(columns, padded, c)) {
      FillRandom(shared, draws++, columns + c * padded, rows);
    }
  }
  JoinColumns(columns, rows, rank, p);
}

}  // namespace gradwire
