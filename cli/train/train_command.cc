#include "cli/train/train_command.h"

#include <utility>

#include "base/clock.h"
#include "cli/measure/rank_job.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "cli/train/block_plan.h"
#include "cli/train/rank_trainer.h"
#include "cli/train/train_options.h"
#include "cli/train/train_report.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

Status RunBlocks(const TrainOptions& options, const RunFacts* facts, TrainReport* report,
                 RankTrainer* trainer) {
  if (facts != nullptr) report->PrintHeader(*facts);
  const auto specs = static_cast<int>(options.specs.size());
  for (int spec = 0; spec < specs; ++spec) GW_RETURN_IF_ERROR(trainer->WarmUp(spec));
  for (const Block& block : PlanBlocks(options.round_steps, specs, options.seed)) {
    StatusOr<BlockResult> result = trainer->RunBlock(block);
    if (!result.ok()) return result.status();
    if (facts != nullptr) report->Add(std::move(*result));
  }
  return Status::Ok();
}

// All blocks on one rank; `facts` are null on all but rank 0, which alone uses the report.
Status Train(gwComm_t comm, const TrainOptions& options, const RunFacts* facts,
             TrainReport* report) {
  RankTrainer trainer(comm, options, SteadyClock());
  Status status = trainer.Prepare();
  // Arguments are wrong on all ranks, and each says so itself.
  if (status.code() == gwInvalidArgument) return status;
  if (status.ok()) status = RunBlocks(options, facts, report, &trainer);
  if (!status.ok()) (void)gwCommAbort(comm);
  return status;
}

int Finish(const RunFacts& facts, TrainReport* report) {
  report->PrintFooter(facts);
  const Status written = report->WriteFiles(facts);
  return written.ok() ? kExitOk : ReportError("train", written);
}

}  // namespace

int TrainCommand(std::span<const std::string> args) {
  TrainOptions options;
  if (const auto code = ParseTrainOptions(args, &options)) return *code;
  TrainReport report(options);
  return RunRanks(
      {.subcommand = "train",
       .thread_ranks = options.thread_ranks,
       .settings = options.settings,
       .work = [&](gwComm_t comm,
                   const RunFacts* facts) { return Train(comm, options, facts, &report); },
       .finish = [&](const RunFacts& facts) { return Finish(facts, &report); }});
}

}  // namespace gradwire
