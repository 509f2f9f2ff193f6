// What rank 0 prints and writes: the table as rows finish, the files at the end.
#ifndef GRADWIRE_CLI_PERF_PERF_REPORT_H_
#define GRADWIRE_CLI_PERF_PERF_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/measure/run_facts.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_row.h"

namespace gradwire {

class PerfReport {
 public:
  // `options` outlive this.
  explicit PerfReport(const PerfOptions& options) : options_(options) {}

  // The table goes to standard output unless JSON or CSV does.
  void PrintHeader(const RunFacts& facts);
  void Add(const PerfRow& row);
  void PrintFooter(const RunFacts& facts);
  Status WriteFiles(const RunFacts& facts) const;

  int64_t wrong() const;
  // Of the command: kExitFailed if any result was wrong.
  int exit_code() const;
  double AverageBusBandwidth() const;
  std::string Json(const RunFacts& facts) const;
  std::string Csv() const;

 private:
  void Print(const std::string& line) const;

  const PerfOptions& options_;
  std::vector<PerfRow> rows_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_REPORT_H_
