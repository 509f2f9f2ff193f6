// The specification of the low-rank kernels: plain loops, element by element.
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/lowrank/lowrank_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/sum_lanes.h"

namespace gradwire {
namespace {

float P(const LowRankJob& job, int64_t row, int c) { return job.p[row * job.rank + c]; }

float Q(const LowRankJob& job, int64_t col, int c) {
  return job.q_columns[c * PaddedColumn(job.cols) + col];
}

float Product(const LowRankJob& job, int64_t row, int64_t col) {
  float sum = 0;
  for (int c = 0; c < job.rank; ++c) sum += P(job, row, c) * Q(job, col, c);
  return sum;
}

// An element of M, kept and counted where that is asked for.
float TakeElement(const LowRankJob& job, int64_t i) {
  const float m = ref::Input(job.m, i);
  if (job.m.e_out != nullptr) job.m.e_out[i] = m;
  if (job.m.stats != nullptr) CountInputRef(m, job.m.stats);
  return m;
}

}  // namespace

// Lane i sums the columns i, i + 16, i + 32, ...
void MultiplyByQRef(const LowRankJob& job, float* p) {
  for (int64_t row = 0; row < job.rows; ++row) {
    float lanes[kLowRankMaxRank][16] = {};
    for (int64_t col = 0; col < job.cols; ++col) {
      const float m = TakeElement(job, row * job.cols + col);
      for (int c = 0; c < job.rank; ++c) lanes[c][col % 16] += m * Q(job, col, c);
    }
    for (int c = 0; c < job.rank; ++c) {
      p[row * job.rank + c] = ref::CanonicalNan(SumLanes(lanes[c]));
    }
  }
}

void MultiplyAndSubtractRef(const LowRankJob& job, float*, float* p) {
  for (int64_t row = 0; row < job.rows; ++row) {
    LowRankJob of_row = job;
    of_row.m = job.m.Sub(row * job.cols, job.cols);
    of_row.rows = 1;
    of_row.m.e_out = nullptr;
    MultiplyByQRef(of_row, p + row * job.rank);
    of_row.m.e_out = job.m.e_out + row * job.cols;
    of_row.m.stats = nullptr;
    of_row.p = p + row * job.rank;
    SubtractProductRef(of_row);
  }
}

// Rows in order within a block, blocks in order.
void MultiplyByPRef(const LowRankJob& job, float* q_columns) {
  for (int64_t first = 0; first < job.rows; first += kBlockRows) {
    const int64_t end = std::min(first + kBlockRows, job.rows);
    for (int64_t col = 0; col < job.cols; ++col) {
      float sums[kLowRankMaxRank] = {};
      for (int64_t row = first; row < end; ++row) {
        const float m = TakeElement(job, row * job.cols + col);
        for (int c = 0; c < job.rank; ++c) sums[c] += m * P(job, row, c);
      }
      for (int c = 0; c < job.rank; ++c) q_columns[c * PaddedColumn(job.cols) + col] += sums[c];
    }
  }
}

void SubtractProductRef(const LowRankJob& job) {
  for (int64_t row = 0; row < job.rows; ++row) {
    for (int64_t col = 0; col < job.cols; ++col) {
      const int64_t i = row * job.cols + col;
      const float error = ref::Input(job.m, i) - Product(job, row, col);
      job.m.e_out[i] = ref::CanonicalNan(error);
      if (job.m.stats != nullptr && ref::IsFinite(error))
        job.m.stats->sum_err2 += static_cast<double>(error) * error;
    }
  }
}

void StoreProductRef(const LowRankJob& job, const DecodeJob& out) {
  for (int64_t row = 0; row < job.rows; ++row) {
    for (int64_t col = 0; col < job.cols; ++col) {
      ref::Emit(out, row * job.cols + col, Product(job, row, col));
    }
  }
}

float DotRef(const float* a, const float* b, int64_t elems) {
  float lanes[16] = {};
  for (int64_t i = 0; i < elems; ++i) lanes[i % 16] += a[i] * b[i];
  return SumLanes(lanes);
}

void SubtractRef(float factor, const float* x, int64_t elems, float* y) {
  for (int64_t i = 0; i < elems; ++i) y[i] -= factor * x[i];
}

}  // namespace gradwire
