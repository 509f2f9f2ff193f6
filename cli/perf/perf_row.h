// Results of `gradwire perf`, and their forms: table, CSV, JSON.
#ifndef GRADWIRE_CLI_PERF_PERF_ROW_H_
#define GRADWIRE_CLI_PERF_PERF_ROW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/json_value.h"
#include "cli/perf/perf_case.h"

namespace gradwire {

// One way (out of place or in place), over the iterations of each rank, then over the ranks.
struct Timing {
  double median_us = 0, mean_us = 0, min_us = 0, p99_us = 0;
  int64_t wrong = -1;  // elements over all ranks; -1: not checked, or the codec's law is unknown
};

// Of one operation at one rank, the largest over the ranks.
struct CodecCost {
  double wire_bytes = 0;  // sent, with all headers
  double encode_us = 0, decode_us = 0;
  double encodes_per_elem = 0;  // encodings an element meets on its way
};

struct PerfRow {
  PerfCase perf_case;
  int ranks = 1;
  std::optional<Timing> out_of_place, in_place;
  CodecCost cost;                // of the out-of-place runs
  std::optional<double> relerr;  // |out - true| / |true| for normal inputs
  std::string algorithm, transport;

  double time_us() const { return out_of_place ? out_of_place->median_us : 0; }
  double AlgBandwidth(const Timing& t) const;  // 1e9 bytes a second, as are those below
  // What nccl-tests calls busbw, on the bytes of the uncompressed arrays.
  double EffectiveBusBandwidth(const Timing& t) const;
  // The same for exact collectives; with a codec what really crossed each rank's link.
  double BusBandwidth(const Timing& t) const;
  // Bytes that a bandwidth-optimal exact algorithm sends, by those that were sent.
  double Ratio() const;
  // The part of the time that is not spent encoding or decoding.
  double NetUs() const;
  int64_t wrong() const;  // both ways together
};

// The lines above the table, and one row; no line feeds at the ends.
std::string TableHeader();
std::string TableRow(const PerfRow& row);

std::string CsvHeader();
// A line for each way that was measured, every independent variable in a column of its own. In
// place the columns of CodecCost, and what is computed from them, are empty.
std::string CsvLines(const PerfRow& row);

JsonValue RowJson(const PerfRow& row);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_ROW_H_
