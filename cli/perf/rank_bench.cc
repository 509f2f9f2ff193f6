#include "cli/perf/rank_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/measure/comm_calls.h"
#include "cli/measure/quantile.h"
#include "cli/perf/error_law.h"
#include "cli/perf/pattern.h"
#include "cli/perf/result_check.h"

namespace gradwire {
namespace {

// Sums and products of their own results would soon be infinite, and codecs treat that apart.
bool GrowsInPlace(const PerfCase& c) { return !c.exact(); }

}  // namespace

RankBench::RankBench(gwComm_t comm, gwComm_t aside, const PerfOptions& options, const Clock& clock)
    : comm_(comm),
      aside_(aside),
      options_(options),
      clock_(clock),
      memory_(static_cast<size_t>(options.operations)) {
  (void)gwCommUserRank(comm, &rank_);
  (void)gwCommCount(comm, &ranks_);
}

Status RankBench::Check(std::span<const PerfCase> cases) {
  for (const PerfCase& c : cases) {
    GW_RETURN_IF_ERROR(PerfOperation(comm_, c, ranks_).Prepare("perf.check", 1));
  }
  return Status::Ok();
}

StatusOr<PerfRow> RankBench::Measure(const PerfCase& c) {
  PerfRow row = {.perf_case = c, .ranks = ranks_};
  for (const bool in_place : {false, true}) {
    if (in_place && !HasInPlace(c.collective)) continue;
    StatusOr<Timing> timing = MeasureOneWay(c, in_place, &row);
    if (!timing.ok()) return timing.status();
    (in_place ? row.in_place : row.out_of_place) = *timing;
  }
  return row;
}

// In place the smaller array is a part of the larger one.
StatusOr<RankBench::Arrays> RankBench::MakeArrays(const PerfCase& c, bool in_place,
                                                  Memory* memory) {
  const int64_t size = SizeOf(c.dtype);
  const int64_t send = SendElems(c, ranks_), recv = RecvElems(c, ranks_);
  GW_RETURN_IF_ERROR(memory->send.EnsureBytes(std::max(send * size, kBufferAlign)));
  GW_RETURN_IF_ERROR(memory->recv.EnsureBytes(std::max(recv * size, kBufferAlign)));
  Arrays arrays = {
      {memory->send.data(), send, c.dtype}, {memory->recv.data(), recv, c.dtype}, in_place};
  if (!in_place) return arrays;
  const int64_t offset = InPlaceOffset(c, rank_, ranks_) * size;
  if (send > recv) {
    arrays.recv.data = arrays.send.data + offset;
  } else {
    arrays.send.data = arrays.recv.data + offset;
  }
  return arrays;
}

// Filled. Each operation has its own: those of a group are under way at the same time.
StatusOr<std::vector<RankBench::Arrays>> RankBench::MakeAllArrays(const PerfCase& c,
                                                                  bool in_place) {
  std::vector<Arrays> all;
  for (Memory& memory : memory_) {
    const StatusOr<Arrays> arrays = MakeArrays(c, in_place, &memory);
    if (!arrays.ok()) return arrays.status();
    if (c.exact()) {
      FillExactInput(c, {rank_, ranks_}, arrays->send);
    } else {
      FillWith(NormalPattern(c.dtype, rank_), 0, arrays->send);
    }
    all.push_back(*arrays);
  }
  return all;
}

StatusOr<Timing> RankBench::MeasureOneWay(const PerfCase& c, bool in_place, PerfRow* row) {
  const StatusOr<std::vector<Arrays>> arrays = MakeAllArrays(c, in_place);
  if (!arrays.ok()) return arrays.status();
  PerfOperation operation(comm_, c, ranks_);
  GW_RETURN_IF_ERROR(operation.Prepare(fmt::format("perf.{}", prepared_++), arrays->size()));
  std::vector<double> times_us;
  GW_RETURN_IF_ERROR(CheckedResult(aside_, gwBarrier(aside_, nullptr)));
  const StatusOr<Counters> before = ReadCounters();
  if (!before.ok()) return before.status();
  GW_RETURN_IF_ERROR(TimeIterations(c, *arrays, &operation, &times_us));
  const StatusOr<Counters> after = ReadCounters();
  if (!after.ok()) return after.status();
  if (!in_place) GW_RETURN_IF_ERROR(CombineCosts(*before, *after, row));
  StatusOr<Timing> timing = CombineTimes(std::move(times_us));
  if (!timing.ok()) return timing;
  const Arrays& checked = arrays->front();
  for (int i = 0; i < options_.checks; ++i) {
    StatusOr<int64_t> wrong = c.exact() ? CheckExact(c, checked) : CheckCodec(c, checked, row);
    if (!wrong.ok()) return wrong.status();
    timing->wrong = *wrong < 0 ? *wrong : std::max<int64_t>(timing->wrong, 0) + *wrong;
  }
  if (c.exact() && IsFloat(c.dtype) && timing->wrong == 0) row->relerr = 0;
  return timing;
}

// In place, from the memory of the other array, which nothing else uses then.
void RankBench::Refill(std::span<const Arrays> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const View& send = arrays[i].send;
    std::memcpy(send.data, memory_[i].send.data(), static_cast<size_t>(send.bytes()));
  }
}

Status RankBench::TimeIterations(const PerfCase& c, std::span<const Arrays> arrays,
                                 PerfOperation* operation, std::vector<double>* times_us) {
  const bool refill = arrays[0].in_place && GrowsInPlace(c);
  std::vector<PerfBuffers> buffers;
  for (size_t i = 0; i < arrays.size(); ++i) {
    buffers.push_back({arrays[i].send.data, arrays[i].recv.data});
    if (!refill) continue;
    FillWith(NormalPattern(c.dtype, rank_), 0,
             {memory_[i].send.data(), arrays[i].send.elems, c.dtype});
  }
  times_us->reserve(static_cast<size_t>(options_.iterations));
  for (int i = -options_.warm_ups; i < options_.iterations; ++i) {
    if (refill) Refill(arrays);
    const int64_t start_ns = clock_.NowNs();
    const gwResult_t result = operation->Run(buffers);
    const int64_t end_ns = clock_.NowNs();
    GW_RETURN_IF_ERROR(CheckedResult(comm_, result));
    if (i < 0) continue;
    times_us->push_back(1e-3 * static_cast<double>(end_ns - start_ns) /
                        static_cast<double>(buffers.size()));
  }
  return Status::Ok();
}

// A tensor of its own, so that no residual of the timed runs is in the result.
Status RankBench::RunOnce(const PerfCase& c, const Arrays& arrays) {
  PerfOperation operation(comm_, c, ranks_);
  GW_RETURN_IF_ERROR(operation.Prepare(fmt::format("perf.{}", prepared_++), 1));
  const PerfBuffers buffers[] = {{arrays.send.data, arrays.recv.data}};
  return CheckedResult(comm_, operation.Run(buffers));
}

StatusOr<int64_t> RankBench::CheckExact(const PerfCase& c, const Arrays& arrays) {
  // What is not written must not look right by having been so before.
  std::memset(arrays.recv.data, 0x5A, static_cast<size_t>(arrays.recv.bytes()));
  FillExactInput(c, {rank_, ranks_}, arrays.send);
  GW_RETURN_IF_ERROR(RunOnce(c, arrays));
  double wrong = static_cast<double>(CountWrong(c, {rank_, ranks_}, arrays.recv));
  GW_RETURN_IF_ERROR(AllReduceValues(aside_, {&wrong, 1}, gwSum));
  return static_cast<int64_t>(wrong);
}

StatusOr<int64_t> RankBench::CheckCodec(const PerfCase& c, const Arrays& arrays, PerfRow* row) {
  std::vector<Pattern> by_rank;
  for (int r = 0; r < ranks_; ++r) by_rank.push_back(NormalPattern(c.dtype, r));
  std::memset(arrays.recv.data, 0x5A, static_cast<size_t>(arrays.recv.bytes()));
  FillWith(by_rank[static_cast<size_t>(rank_)], 0, arrays.send);
  GW_RETURN_IF_ERROR(RunOnce(c, arrays));
  const StatusOr<ErrorFound> found = CompareWithTruth(c.spec, by_rank, c.op, arrays.recv);
  if (!found.ok()) return found.status();
  double wrong = static_cast<double>(found->wrong), relerr = found->relerr;
  GW_RETURN_IF_ERROR(AllReduceValues(aside_, {&wrong, 1}, gwSum));
  GW_RETURN_IF_ERROR(AllReduceValues(aside_, {&relerr, 1}, gwMax));
  row->relerr = std::max(row->relerr.value_or(0), relerr);
  return wrong < 0 ? int64_t{-1} : static_cast<int64_t>(wrong);
}

StatusOr<RankBench::Counters> RankBench::ReadCounters() {
  const StatusOr<nlohmann::json> stats = ReadStats(comm_);
  if (!stats.ok()) return stats.status();
  return Counters{
      .wire_bytes = stats->value("sent_bytes", 0.0) + stats->value("framing_bytes", 0.0),
      .encode_us = 1e-3 * stats->value("encode_ns", 0.0),
      .decode_us = 1e-3 * stats->value("decode_ns", 0.0),
      .encodes_per_elem = stats->value("encodes_per_elem", 0.0),
      .algorithm = stats->value("algorithm", ""),
      .transport = stats->value("transport", "")};
}

Status RankBench::CombineCosts(const Counters& before, const Counters& after, PerfRow* row) {
  const double runs = (options_.iterations + options_.warm_ups) * options_.operations;
  double values[] = {(after.wire_bytes - before.wire_bytes) / runs,
                     (after.encode_us - before.encode_us) / runs,
                     (after.decode_us - before.decode_us) / runs};
  GW_RETURN_IF_ERROR(AllReduceValues(aside_, values, gwMax));
  row->cost = {.wire_bytes = values[0],
               .encode_us = values[1],
               .decode_us = values[2],
               .encodes_per_elem = after.encodes_per_elem};
  row->algorithm = after.algorithm;
  row->transport = after.transport;
  return Status::Ok();
}

StatusOr<Timing> RankBench::CombineTimes(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const double sum = std::accumulate(times_us.begin(), times_us.end(), 0.0);
  double values[] = {Quantile(times_us, 0.5), sum / static_cast<double>(times_us.size()),
                     times_us.front(), Quantile(times_us, 0.99)};
  const bool silent = options_.combine == Combine::kRank0 && rank_ != 0;
  if (silent) std::fill(std::begin(values), std::end(values), 0.0);
  switch (options_.combine) {
    case Combine::kRank0: GW_RETURN_IF_ERROR(AllReduceValues(aside_, values, gwSum)); break;
    case Combine::kMean: GW_RETURN_IF_ERROR(AllReduceValues(aside_, values, gwAvg)); break;
    case Combine::kMin: GW_RETURN_IF_ERROR(AllReduceValues(aside_, values, gwMin)); break;
    case Combine::kMax: GW_RETURN_IF_ERROR(AllReduceValues(aside_, values, gwMax)); break;
  }
  return Timing{
      .median_us = values[0], .mean_us = values[1], .min_us = values[2], .p99_us = values[3]};
}

}  // namespace gradwire
