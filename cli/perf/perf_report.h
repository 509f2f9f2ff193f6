// What rank 0 prints and writes: the table as rows finish, the files at the end.
#ifndef GRADWIRE_CLI_PERF_PERF_REPORT_H_
#define GRADWIRE_CLI_PERF_PERF_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_row.h"

namespace gradwire {

// Facts about a run beside its rows.
struct PerfRunFacts {
  int64_t start_unix_s = 0, end_unix_s = 0;
  std::string host;
  int ranks = 0;
  std::string netlab;                    // rate, empty outside `gradwire run --netlab`
  std::vector<std::string> environment;  // GRADWIRE_ variables, without secrets
  std::optional<double> ping_pong_before_us, ping_pong_after_us;
  bool probed = false;  // the two above were measured, if there are two cores
};

class PerfReport {
 public:
  // `options` outlive this.
  explicit PerfReport(const PerfOptions& options) : options_(options) {}

  // The table goes to standard output unless JSON or CSV does.
  void PrintHeader(const PerfRunFacts& facts);
  void Add(const PerfRow& row);
  void PrintFooter(const PerfRunFacts& facts);
  Status WriteFiles(const PerfRunFacts& facts) const;

  int64_t wrong() const;
  // Of the command: kExitFailed if any result was wrong.
  int exit_code() const;
  double AverageBusBandwidth() const;
  std::string Json(const PerfRunFacts& facts) const;
  std::string Csv() const;

 private:
  void Print(const std::string& line) const;

  const PerfOptions& options_;
  std::vector<PerfRow> rows_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_REPORT_H_
