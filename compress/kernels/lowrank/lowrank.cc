#include "compress/kernels/lowrank/lowrank.h"

#include <algorithm>

#include "base/workspace.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/lowrank/lowrank_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {
namespace {

LowRankJob MakeJob(const LowRankMatrix& m, int rank) {
  return {.m = {.grad = m.grad,
                .dtype = m.dtype,
                .in_scale = m.in_scale,
                .e_in = m.e_in,
                .elems = m.rows * m.cols,
                .tensor_elems = m.rows * m.cols},
          .rows = m.rows,
          .cols = m.cols,
          .rank = rank};
}

// The workspace: a factor by columns, then some rows of the matrix.
float* Columns(Bytes workspace) { return reinterpret_cast<float*>(workspace.data); }
float* Rows(const LowRankJob& job, Bytes workspace) {
  return Columns(workspace) + job.rank * PaddedColumn(std::max(job.rows, job.cols));
}

// Elements that stay in second-level cache from the pass that writes them to the one that reads
// them; rows, of which at least a block of the kernels is taken, may be longer.
constexpr int64_t kCachedElems = int64_t{1} << 14;

// Elements of a factor that stay in first-level cache while they go to their columns.
constexpr int64_t kSplitElems = int64_t{1} << 11;

// A whole number of blocks.
int64_t CachedRows(int64_t cols) {
  return std::max<int64_t>(kCachedElems / cols / kBlockRows, 1) * kBlockRows;
}

// `count` rows from `first` on.
LowRankJob RowsOf(LowRankJob job, int64_t first, int64_t count) {
  job.m = job.m.Sub(first * job.cols, count * job.cols);
  job.p += first * job.rank;
  job.rows = count;
  return job;
}

}  // namespace

void SplitColumns(const float* factor, int64_t rows, int rank, float* columns) {
  const int64_t padded = PaddedColumn(rows);
  const int64_t most = std::max<int64_t>(kSplitElems / rank, 1);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t end = std::min(first + most, rows);
    for (int c = 0; c < rank; ++c) {
      float* column = columns + c * padded;
      for (int64_t row = first; row < end; ++row) column[row] = factor[row * rank + c];
    }
  }
  for (int c = 0; c < rank; ++c)
    std::fill(columns + c * padded + rows, columns + (c + 1) * padded, 0.0f);
}

void JoinColumns(const float* columns, int64_t rows, int rank, float* factor) {
  const int64_t padded = PaddedColumn(rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int c = 0; c < rank; ++c) {
      factor[row * rank + c] = ref::CanonicalNan(columns[c * padded + row]);
    }
  }
}

namespace {

LowRankJob MakeJobWithQ(const LowRankMatrix& m, const float* q, int rank, Bytes workspace) {
  SplitColumns(q, m.cols, rank, Columns(workspace));
  LowRankJob job = MakeJob(m, rank);
  job.q_columns = Columns(workspace);
  return job;
}

}  // namespace

int64_t LowRankWorkspaceBytes(int64_t rows, int64_t cols, int rank) {
  const int64_t columns = rank * PaddedColumn(std::max(rows, cols));
  const int64_t some_rows =
      std::max(std::min(CachedRows(cols), rows) * cols, kBlockRows * PaddedColumn(cols));
  return AlignUp(int64_t{sizeof(float)} * (columns + some_rows));
}

void MultiplyByQ(const LowRankMatrix& m, const float* q, int rank, Bytes workspace,
                 const LowRankFactorOut& out) {
  LowRankJob job = MakeJobWithQ(m, q, rank, workspace);
  job.m.e_out = out.m_out;
  EncodeStats scanned;
  if (out.stats != nullptr) job.m.stats = &scanned;
  ActiveLowRankKernels().multiply_by_q(job, out.factor);
  if (out.stats != nullptr) AddScanned(job.m, scanned, out.stats);
}

void MultiplyByQAndSubtract(const LowRankMatrix& m, const float* q, int rank, Bytes workspace,
                            const LowRankSplit& out) {
  LowRankJob job = MakeJobWithQ(m, q, rank, workspace);
  job.m.e_out = out.e_out;
  EncodeStats scanned;
  if (out.stats != nullptr) job.m.stats = &scanned;
  ActiveLowRankKernels().multiply_and_subtract(job, Rows(job, workspace), out.p);
  if (out.stats == nullptr) return;
  job.m.e_out = nullptr;  // M is not there
  AddScanned(job.m, scanned, out.stats);
}

// The kernel adds blocks of rows to Q in their order.
void MultiplyByP(const LowRankMatrix& m, const float* p, int rank, Bytes workspace,
                 const LowRankFactorOut& out) {
  float* columns = Columns(workspace);
  std::fill_n(columns, rank * PaddedColumn(m.cols), 0.0f);
  LowRankJob job = MakeJob(m, rank);
  job.p = p;
  job.m.e_out = out.m_out;
  EncodeStats scanned;
  if (out.stats != nullptr) job.m.stats = &scanned;
  ActiveLowRankKernels().multiply_by_p(job, columns);
  if (out.stats != nullptr) AddScanned(job.m, scanned, out.stats);
  JoinColumns(columns, m.cols, rank, out.factor);
}

void SubtractProduct(const LowRankMatrix& m, const LowRankProduct& product, Bytes workspace,
                     float* e_out) {
  LowRankJob job = MakeJobWithQ(m, product.q, product.rank, workspace);
  job.p = product.p;
  job.m.e_out = e_out;
  ActiveLowRankKernels().subtract_product(job);
}

double EnergyOfDifference(const LowRankMatrix& m, const LowRankProduct& product, Bytes workspace) {
  LowRankJob job = MakeJobWithQ(m, product.q, product.rank, workspace);
  job.p = product.p;
  EncodeStats stats;
  job.m.stats = &stats;
  const int64_t most = CachedRows(job.cols);
  for (int64_t first = 0; first < job.rows; first += most) {
    LowRankJob rows = RowsOf(job, first, std::min(most, job.rows - first));
    rows.m.e_out = Rows(job, workspace);
    rows.m.tensor_elems = rows.m.elems;
    ActiveLowRankKernels().subtract_product(rows);
  }
  return stats.sum_err2;
}

void StoreProduct(const LowRankProduct& product, Bytes workspace, const LowRankOutput& out) {
  SplitColumns(product.q, out.cols, product.rank, Columns(workspace));
  const LowRankJob job = {.m = {.tensor_elems = out.rows * out.cols},
                          .rows = out.rows,
                          .cols = out.cols,
                          .rank = product.rank,
                          .p = product.p,
                          .q_columns = Columns(workspace)};
  ActiveLowRankKernels().store_product(job, {.out = out.data,
                                             .dtype = out.dtype,
                                             .to = DecodeTo::kStore,
                                             .out_scale = out.scale,
                                             .elems = out.rows * out.cols});
}

}  // namespace gradwire
