// One thing to measure: a collective on so many bytes of a type, and what nccl-tests' definitions
// make of it.
#ifndef GRADWIRE_CLI_PERF_PERF_CASE_H_
#define GRADWIRE_CLI_PERF_PERF_CASE_H_

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "collectives/schedule.h"

namespace gradwire {

inline constexpr int kEachRoot = -1;

struct PerfCase {
  Collective collective = Collective::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;               // kEachRoot stands for a case of each rank
  std::string spec = "none";  // other than none: as a registered tensor
  int64_t bytes = 0;          // nccl-tests' size: of the larger of the two arrays

  bool exact() const { return spec == "none"; }
};

// Whether the collective has a root.
bool HasRoot(Collective collective);
// All-to-all and barrier have no in-place form.
bool HasInPlace(Collective collective);

// The collective's count argument: elements each rank gives to all-gather and all-to-all (to each
// rank), or receives from reduce-scatter; elements of the array for the others.
int64_t CountOf(const PerfCase& c, int ranks);

// Elements of the arrays; equal at all ranks.
int64_t SendElems(const PerfCase& c, int ranks);
int64_t RecvElems(const PerfCase& c, int ranks);
// Where the other array begins in place: the send part of the receive array (all-gather), or the
// receive part of the send array (reduce-scatter); 0 for the others.
int64_t InPlaceOffset(const PerfCase& c, int rank, int ranks);

// nccl-tests' factor between algorithm and bus bandwidth.
double BusFactor(Collective collective, int ranks);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_CASE_H_
