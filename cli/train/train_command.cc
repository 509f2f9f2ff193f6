#include "cli/train/train_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/measure/progress.h"
#include "cli/measure/rank_job.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "cli/train/block_plan.h"
#include "cli/train/lanes.h"
#include "cli/train/rank_trainer.h"
#include "cli/train/step_memory.h"
#include "cli/train/train_options.h"
#include "cli/train/train_report.h"
#include "gradwire/gradwire.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// The blocks of all specs on one rank; `facts` are null on all but rank 0, which alone uses the
// report.
class RankRun {
 public:
  RankRun(std::span<const gwComm_t> comms, const TrainOptions& options, const RunFacts* facts,
          TrainReport* report)
      : comms_(comms),
        options_(options),
        lanes_(LanesOf(options.specs)),
        report_(facts != nullptr ? report : nullptr),
        progress_(ProgressTerminal(facts), SteadyClock()) {}

  Status Prepare() {
    int rank = 0, ranks = 0;
    (void)gwCommUserRank(comms_[0], &rank);
    (void)gwCommCount(comms_[0], &ranks);
    for (const LateRank& late : options_.late) {
      if (late.rank < ranks) continue;
      return Status(gwInvalidArgument,
                    fmt::format("--late: there is no rank {} among {}", late.rank, ranks));
    }
    GW_RETURN_IF_ERROR(memory_.Make(options_.model, options_.seed, rank));
    for (const gwComm_t comm : comms_) {
      trainers_.emplace_back(RankTrainer::Parts{.comm = comm,
                                                .options = &options_,
                                                .clock = &SteadyClock(),
                                                .memory = &memory_,
                                                .progress = &progress_});
    }
    for (int lane = 0; lane < lanes_.count; ++lane) {
      GW_RETURN_IF_ERROR(trainers_[static_cast<size_t>(lane)].Prepare(lanes_.SpecsOf(lane)));
    }
    return Status::Ok();
  }

  Status WarmUp() {
    for (size_t spec = 0; spec < options_.specs.size(); ++spec) {
      const int steps =
          options_.warm_ups + (IsAutoSpec(options_.specs[spec]) ? options_.auto_warm_ups : 0);
      if (steps == 0) continue;
      progress_.Begin(options_.specs[spec] + ": warm-up, step");
      StatusOr<std::vector<StepTime>> times = TrainerOf(spec).WarmUp(static_cast<int>(spec), steps);
      if (!times.ok()) return times.status();
      if (report_ != nullptr) report_->AddWarmUp(spec, std::move(*times));
    }
    return Status::Ok();
  }

  Status RunBlocks() {
    const auto specs = static_cast<int>(options_.specs.size());
    const std::vector<Block> blocks = PlanBlocks(options_.round_steps, specs, options_.seed);
    int begun = 0;
    for (const Block& block : blocks) {
      progress_.Begin(fmt::format("block {} of {}, step", ++begun, blocks.size()));
      StatusOr<BlockResult> result = TrainerOf(static_cast<size_t>(block.spec)).RunBlock(block);
      if (!result.ok()) return result.status();
      if (report_ == nullptr) continue;
      progress_.Clear();
      report_->Add(std::move(*result));
    }
    return Status::Ok();
  }

  Status ReportPlans() {
    for (size_t spec = 0; report_ != nullptr && spec < options_.specs.size(); ++spec) {
      if (!IsAutoSpec(options_.specs[spec])) continue;
      StatusOr<std::vector<PlanChange>> changes = TrainerOf(spec).PlanChanges();
      if (!changes.ok()) return changes.status();
      report_->AddPlanChanges(spec, std::move(*changes));
    }
    return Status::Ok();
  }

 private:
  RankTrainer& TrainerOf(size_t spec) {
    return trainers_[static_cast<size_t>(lanes_.of_spec[spec])];
  }

  const std::span<const gwComm_t> comms_;
  const TrainOptions& options_;
  const Lanes lanes_;
  TrainReport* const report_;  // null on all ranks but 0
  Progress progress_;
  StepMemory memory_;
  std::vector<RankTrainer> trainers_;  // of each lane
};

// As RankRun has them.
Status Train(std::span<const gwComm_t> comms, const TrainOptions& options, const RunFacts* facts,
             TrainReport* report) {
  RankRun run(comms, options, facts, report);
  Status status = run.Prepare();
  // Arguments are wrong on all ranks, and each says so itself.
  if (status.code() == gwInvalidArgument) return status;
  if (status.ok() && facts != nullptr) report->PrintHeader(*facts);
  if (status.ok()) status = run.WarmUp();
  if (status.ok()) status = run.RunBlocks();
  if (status.ok()) status = run.ReportPlans();
  if (!status.ok()) {
    for (const gwComm_t comm : comms) (void)gwCommAbort(comm);
  }
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
       .communicators = LanesOf(options.specs).count,
       .settings = options.settings,
       .outputs = {options.json_path, options.csv_path, options.record_path},
       .work = [&](std::span<const gwComm_t> comms,
                   const RunFacts* facts) { return Train(comms, options, facts, &report); },
       .finish = [&](const RunFacts& facts) { return Finish(facts, &report); }});
}

}  // namespace gradwire
