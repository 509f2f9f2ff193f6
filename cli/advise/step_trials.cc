#include "cli/advise/step_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/measure/comm_calls.h"
#include "cli/measure/quantile.h"

namespace gradwire {
namespace {

// What registers the tensors; the trials say which specs they are for.
constexpr char kFirstSpec[] = "none";
constexpr int kFirstSpecNumber = 0;

// The first step of a block is not counted; of the first block that is the one that allocates.
constexpr int kFirstSteps = 3;
constexpr int kMaxSteps = 11;
// A large model on a slow link: fewer steps, which vary less there.
constexpr double kBudgetMs = 20'000;
// In turns a block is short, so that what drifts meets all plans alike, and there are many.
constexpr int kTurnSteps = 4;
constexpr int kMaxTurns = 25;
// Of a plan that is compared with none.
constexpr int kTurnsAlone = 3;

double QuantileMs(std::vector<double> times, double q) {
  std::sort(times.begin(), times.end());
  return Quantile(times, q);
}

void AddTimes(const BlockResult& block, std::vector<double>* times) {
  for (const StepTime& step : block.counted()) times->push_back(step.step_ms);
}

// What else the machine does only adds, but a single fast step may be luck.
double TypicalMs(const BlockResult& block) {
  std::vector<double> times;
  AddTimes(block, &times);
  return QuantileMs(std::move(times), 0.25);
}

}  // namespace

StepTrials::StepTrials(gwComm_t comm, const ModelShapes& model, const Clock& clock,
                       Progress* progress)
    : comm_(comm),
      options_{.model = model, .specs = {kFirstSpec}},
      clock_(clock),
      progress_(*progress) {}

Status StepTrials::Prepare() {
  int rank = 0;
  GW_RETURN_IF_ERROR(CheckedResult(comm_, gwCommUserRank(comm_, &rank)));
  GW_RETURN_IF_ERROR(memory_.Make(options_.model, options_.seed, rank));
  trainer_.emplace(RankTrainer::Parts{.comm = comm_,
                                      .options = &options_,
                                      .clock = &clock_,
                                      .memory = &memory_,
                                      .progress = &progress_});
  return trainer_->Prepare({&kFirstSpecNumber, 1});
}

StatusOr<double> StepTrials::LinkMs(const std::string& spec) {
  progress_.Begin("the link with " + spec + ", step");
  trainer_->SetComputeMs(0);
  const int plan = trainer_->AddPlan(std::vector<std::string>(options_.model.tensors.size(), spec));
  const StatusOr<BlockResult> first = trainer_->RunBlock({.spec = plan, .steps = kFirstSteps});
  if (!first.ok()) return first.status();
  const double affordable = std::min<double>(kBudgetMs / TypicalMs(*first), kMaxSteps);
  const int steps = std::max(static_cast<int>(affordable), kFirstSteps);
  const StatusOr<BlockResult> block = trainer_->RunBlock({.spec = plan, .steps = steps});
  if (!block.ok()) return block.status();
  return TypicalMs(*block);
}

StatusOr<StepTrials::Started> StepTrials::Start(const std::vector<std::string>& plan,
                                                double compute_ms) {
  progress_.Begin("a plan, first step");
  trainer_->SetComputeMs(compute_ms);
  const int number = trainer_->AddPlan(plan);
  const auto block = trainer_->RunBlock({.spec = number, .steps = kFirstSteps});
  if (!block.ok()) return block.status();
  return Started{number, TypicalMs(*block)};
}

StatusOr<std::vector<double>> StepTrials::TryInTurns(const std::vector<Started>& plans) {
  double turn_ms = 0;
  for (const Started& plan : plans) turn_ms += kTurnSteps * plan.step_ms;
  const double affordable =
      std::min<double>(kBudgetMs / turn_ms, plans.size() > 1 ? kMaxTurns : kTurnsAlone);
  std::vector<std::vector<double>> times(plans.size());
  const int turns = std::max(static_cast<int>(affordable), 1);
  for (int turn = 0; turn < turns; ++turn) {
    progress_.Begin(fmt::format("plans in turns, {} of {}, step", turn + 1, turns));
    for (size_t p = 0; p < plans.size(); ++p) {
      const auto block = trainer_->RunBlock({.spec = plans[p].number, .steps = kTurnSteps});
      if (!block.ok()) return block.status();
      AddTimes(*block, &times[p]);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_plan : times) medians.push_back(QuantileMs(std::move(of_plan), 0.5));
  return medians;
}

}  // namespace gradwire
