#include "cli/advise/advise_command.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/advise/advice.h"
#include "cli/advise/advise_options.h"
#include "cli/advise/advise_report.h"
#include "cli/advise/codec_trials.h"
#include "cli/advise/step_trials.h"
#include "cli/measure/comm_calls.h"
#include "cli/measure/progress.h"
#include "cli/measure/rank_job.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

StatusOr<JobFacts> JobOn(gwComm_t comm, const AdviseOptions& options) {
  int ranks = 0;
  GW_RETURN_IF_ERROR(CheckedResult(comm, gwCommCount(comm, &ranks)));
  if (ranks < 2) {
    return Status(
        gwInvalidArgument, "one rank has no link to measure",
        "Run it as `gradwire run -n N -- gradwire advise ...`, or with mpirun or torchrun");
  }
  const StatusOr<nlohmann::json> stats = ReadStats(comm);
  if (!stats.ok()) return stats.status();
  return JobOf(options.model, std::make_shared<const AutoSpec>(options.automatic),
               {.world_size = ranks, .one_host = stats->value("one_host", false)},
               stats->value("slice_elems", int64_t{1}));
}

// Everything uncompressed, and what may be faster.
StatusOr<std::vector<TriedPlan>> TryPlans(const AdviseOptions& options, const JobFacts& job,
                                          const Measurements& measured, StepTrials* steps) {
  std::vector<TriedPlan> tried;
  std::vector<StepTrials::Started> started;
  const auto start = [&](Plan plan) -> Status {
    const auto first = steps->Start(SpecsOf(job, plan), options.compute_ms);
    if (!first.ok()) return first.status();
    started.push_back(*first);
    tried.push_back({.plan = std::move(plan)});
    return Status::Ok();
  };
  GW_RETURN_IF_ERROR(start(AllOn(job, kNoneRung)));
  if (!Hides(started[0].step_ms, options.compute_ms)) {
    for (Plan& plan : PlansToTry(job, options.model, options.compute_ms, measured))
      GW_RETURN_IF_ERROR(start(std::move(plan)));
  }
  const auto tried_ms = steps->TryInTurns(started);
  if (!tried_ms.ok()) return tried_ms.status();
  for (size_t p = 0; p < tried.size(); ++p) tried[p].step_ms = (*tried_ms)[p];
  return tried;
}

StatusOr<Advice> MeasureAndAdvise(gwComm_t comm, const AdviseOptions& options, const JobFacts& job,
                                  Progress* progress) {
  StepTrials steps(comm, options.model, SteadyClock(), progress);
  GW_RETURN_IF_ERROR(steps.Prepare());
  const StatusOr<double> none_ms = steps.LinkMs("none");
  if (!none_ms.ok()) return none_ms.status();
  const StatusOr<double> bf16_ms = steps.LinkMs("bf16");
  if (!bf16_ms.ok()) return bf16_ms.status();
  auto codecs = TryCodecs(comm, job, options.model, options.automatic, SteadyClock(), progress);
  if (!codecs.ok()) return codecs.status();
  const Measurements measured = {
      .none_ms = *none_ms, .bf16_ms = *bf16_ms, .codecs = std::move(*codecs)};

  const StatusOr<std::vector<TriedPlan>> tried = TryPlans(options, job, measured, &steps);
  if (!tried.ok()) return tried.status();
  return MakeAdvice(job, options.model, options.compute_ms, measured, *tried);
}

// One rank's part. Rank 0, which alone has `facts`, keeps the advice.
Status Work(gwComm_t comm, const AdviseOptions& options, const RunFacts* facts, Advice* kept) {
  const StatusOr<JobFacts> job = JobOn(comm, options);
  // Arguments are wrong on all ranks, and each says so itself.
  if (!job.ok()) return job.status();
  Progress progress(ProgressTerminal(facts), SteadyClock());
  StatusOr<Advice> advice = MeasureAndAdvise(comm, options, *job, &progress);
  if (!advice.ok()) {
    (void)gwCommAbort(comm);
    return advice.status();
  }
  if (facts != nullptr) *kept = std::move(*advice);
  return Status::Ok();
}

int Finish(const AdviseOptions& options, const RunFacts& facts, const Advice& advice) {
  if (options.json_path != "-") {
    const Status printed = WriteTextTo("-", AdviceText(options, facts, advice));
    if (!printed.ok()) return ReportError("advise", printed);
  }
  if (options.json_path.empty()) return kExitOk;
  const Status written = WriteTextTo(options.json_path, AdviceJson(options, facts, advice));
  return written.ok() ? kExitOk : ReportError("advise", written);
}

}  // namespace

int AdviseCommand(std::span<const std::string> args) {
  AdviseOptions options;
  if (const auto code = ParseAdviseOptions(args, &options)) return *code;
  Advice advice;
  return RunRanks(
      {.subcommand = "advise",
       // Threads have no link: without a launcher this is one rank, which is refused.
       .default_thread_ranks = 1,
       .settings = options.settings,
       .outputs = {options.json_path, options.record_path},
       .work = [&](std::span<const gwComm_t> comms,
                   const RunFacts* facts) { return Work(comms[0], options, facts, &advice); },
       .finish = [&](const RunFacts& facts) { return Finish(options, facts, advice); }});
}

}  // namespace gradwire
