// One rank of a measurement: runs cases through the public C API and returns their rows.
#ifndef GRADWIRE_CLI_PERF_RANK_BENCH_H_
#define GRADWIRE_CLI_PERF_RANK_BENCH_H_

#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "cli/perf/perf_operation.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_row.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// All ranks make one with equal options and measure the same cases in the same order. One thread.
class RankBench {
 public:
  // Over `comm` goes what is measured, over `aside` what measuring takes: barriers, and sums of
  // results. The two may be the same. They, `options` and `clock`, which times each iteration,
  // outlive this.
  RankBench(gwComm_t comm, gwComm_t aside, const PerfOptions& options, const Clock& clock);

  // Whether tensors of these sizes take these codecs. All ranks refuse the same, so nobody waits.
  Status Check(std::span<const PerfCase> cases);

  // Equal on all ranks. An error of the library with its own text; then both communicators must be
  // aborted, because the others still wait.
  StatusOr<PerfRow> Measure(const PerfCase& c);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  struct Memory {
    AlignedBuffer send, recv;
  };
  struct Arrays {  // of one operation
    View send, recv;
    bool in_place = false;
  };
  // Of this rank since the communicator began; times in microseconds.
  struct Counters {
    double wire_bytes = 0, encode_us = 0, decode_us = 0, encodes_per_elem = 0;
    std::string algorithm, transport;
  };

  StatusOr<Arrays> MakeArrays(const PerfCase& c, bool in_place, Memory* memory);
  StatusOr<std::vector<Arrays>> MakeAllArrays(const PerfCase& c, bool in_place);
  StatusOr<Timing> MeasureOneWay(const PerfCase& c, bool in_place, PerfRow* row);
  Status TimeIterations(const PerfCase& c, std::span<const Arrays> arrays, PerfOperation* operation,
                        std::vector<double>* times_us);
  void Refill(std::span<const Arrays> arrays);
  // Elements that are wrong on any rank; -1: the codec's law is unknown.
  StatusOr<int64_t> CheckExact(const PerfCase& c, const Arrays& arrays);
  StatusOr<int64_t> CheckCodec(const PerfCase& c, const Arrays& arrays, PerfRow* row);
  Status RunOnce(const PerfCase& c, const Arrays& arrays);

  StatusOr<Counters> ReadCounters();
  Status CombineCosts(const Counters& before, const Counters& after, PerfRow* row);
  StatusOr<Timing> CombineTimes(std::vector<double> times_us);

  const gwComm_t comm_, aside_;
  const PerfOptions& options_;
  const Clock& clock_;
  int rank_ = 0, ranks_ = 1;
  std::vector<Memory> memory_;  // of each operation of an iteration
  int prepared_ = 0;            // operations so far: part of the next one's name
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_RANK_BENCH_H_
