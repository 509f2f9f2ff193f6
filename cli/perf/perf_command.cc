#include "cli/perf/perf_command.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/measure/rank_job.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_report.h"
#include "cli/perf/rank_bench.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

// All cases on one rank; `facts` are null on all but rank 0, which alone uses the report.
Status MeasureAll(gwComm_t comm, const PerfOptions& options, const RunFacts* facts,
                  PerfReport* report) {
  RankBench bench(comm, options, SteadyClock());
  if (const int root = options.cases[0].root; root >= bench.ranks()) {
    return Status(gwInvalidArgument,
                  fmt::format("there is no root {} among {} ranks", root, bench.ranks()));
  }
  if (facts != nullptr) report->PrintHeader(*facts);
  for (const PerfCase& c : options.cases) {
    const StatusOr<PerfRow> row = bench.Measure(c);
    if (!row.ok()) {
      (void)gwCommAbort(comm);
      return row.status();
    }
    if (facts != nullptr) report->Add(*row);
  }
  return Status::Ok();
}

int Finish(const RunFacts& facts, PerfReport* report) {
  report->PrintFooter(facts);
  const Status written = report->WriteFiles(facts);
  return written.ok() ? report->exit_code() : ReportError("perf", written);
}

}  // namespace

int PerfCommand(std::span<const std::string> args) {
  PerfOptions options;
  if (const auto code = ParsePerfOptions(args, &options)) return *code;
  PerfReport report(options);
  return RunRanks(
      {.subcommand = "perf",
       .thread_ranks = options.thread_ranks,
       .settings = options.settings,
       .work = [&](std::span<const gwComm_t> comms,
                   const RunFacts* facts) { return MeasureAll(comms[0], options, facts, &report); },
       .finish = [&](const RunFacts& facts) { return Finish(facts, &report); }});
}

}  // namespace gradwire
