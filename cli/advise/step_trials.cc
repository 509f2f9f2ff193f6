#include "cli/advise/link_steps.h"

#include <algorithm>
#include <numeric>

#include "cli/measure/quantile.h"
#include "cli/train/rank_trainer.h"
#include "cli/train/step_memory.h"
#include "cli/train/train_options.h"

namespace gradwire {
namespace {

// The first step of a block is not counted; of the first block that is the one that allocates.
constexpr int kFirstSteps = 3;
constexpr int kMaxSteps = 11;
// A large model on a slow link: fewer steps, which vary less there.
constexpr double kBudgetMs = 20'000;

// What else the machine does only adds, but a single fast step may be luck.
double TypicalMs(const BlockResult& block) {
  std::vector<double> times;
  for (const StepTime& step : block.counted()) times.push_back(step.step_ms);
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.25);
}

// Equal on all ranks: blocks have the times of the slowest.
StatusOr<double> MeasureSpec(int spec, RankTrainer* trainer) {
  const StatusOr<BlockResult> first = trainer->RunBlock({.spec = spec, .steps = kFirstSteps});
  if (!first.ok()) return first.status();
  const double affordable = std::min<double>(kBudgetMs / TypicalMs(*first), kMaxSteps);
  const int steps = std::max(static_cast<int>(affordable), kFirstSteps);
  const StatusOr<BlockResult> block = trainer->RunBlock({.spec = spec, .steps = steps});
  if (!block.ok()) return block.status();
  return TypicalMs(*block);
}

}  // namespace

StatusOr<std::vector<double>> MeasureLinkSteps(gwComm_t comm, const ModelShapes& model,
                                               const std::vector<std::string>& specs,
                                               const Clock& clock) {
  const TrainOptions options = {.model = model, .specs = specs};
  int rank = 0;
  (void)gwCommUserRank(comm, &rank);
  StepMemory memory;
  GW_RETURN_IF_ERROR(memory.Make(model, options.seed, rank));
  RankTrainer trainer({.comm = comm, .options = &options, .clock = &clock, .memory = &memory});
  std::vector<int> all(specs.size());
  std::iota(all.begin(), all.end(), 0);
  GW_RETURN_IF_ERROR(trainer.Prepare(all));
  std::vector<double> times;
  for (int spec = 0; spec < std::ssize(specs); ++spec) {
    const StatusOr<double> ms = MeasureSpec(spec, &trainer);
    if (!ms.ok()) return ms.status();
    times.push_back(*ms);
  }
  return times;
}

}  // namespace gradwire
