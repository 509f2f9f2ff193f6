#include "cli/perf/perf_command.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/measure/rank_job.h"
#include "cli/measure/thread_clock.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_report.h"
#include "cli/perf/rank_bench.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

// The case with each root that it stands for.
std::vector<PerfCase> CasesOf(PerfCase c, int ranks) {
  if (c.root != kEachRoot) return {std::move(c)};
  std::vector<PerfCase> cases;
  for (c.root = 0; c.root < (HasRoot(c.collective) ? ranks : 1); ++c.root) cases.push_back(c);
  return cases;
}

// All cases on one rank; `facts` are null on all but rank 0, which alone uses the report.
Status MeasureAll(std::span<const gwComm_t> comms, const PerfOptions& options,
                  const RunFacts* facts, PerfReport* report) {
  RankBench bench(comms.front(), comms.back(), options,
                  options.processor_time ? ThreadClock() : SteadyClock());
  if (const int root = options.cases[0].root; root >= bench.ranks()) {
    return Status(gwInvalidArgument,
                  fmt::format("there is no root {} among {} ranks", root, bench.ranks()));
  }
  GW_RETURN_IF_ERROR(bench.Check(options.cases));
  if (facts != nullptr) report->PrintHeader(*facts);
  for (const PerfCase& given : options.cases) {
    for (const PerfCase& c : CasesOf(given, bench.ranks())) {
      const StatusOr<PerfRow> row = bench.Measure(c);
      if (!row.ok()) {
        for (const gwComm_t comm : comms) (void)gwCommAbort(comm);
        return row.status();
      }
      if (facts != nullptr) report->Add(*row);
    }
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
       // A record is of what is measured, and not of what measuring takes.
       .communicators = options.record_path.empty() ? 1 : 2,
       .settings = options.settings,
       .further_settings = "record_messages=",
       .outputs = {options.json_path, options.csv_path, options.record_path},
       .work = [&](std::span<const gwComm_t> comms,
                   const RunFacts* facts) { return MeasureAll(comms, options, facts, &report); },
       .finish = [&](const RunFacts& facts) { return Finish(facts, &report); }});
}

}  // namespace gradwire
