#include "runtime/sim/sim_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/sim/sim_caller.h"
#include "runtime/sim/sim_job.h"
#include "runtime/sim/sim_scenario.h"

namespace gradwire {
namespace {

// No job takes longer, whatever happens in it.
constexpr int64_t kBoundNs = 30 * kNsPerSecond;

// A scenario while it runs, and what is left of it.
class Run {
 public:
  Run(const Scenario& s, Ledger* ledger) : s_(s), job_(s.job) {
    for (int r = 0; r < job_.size(); ++r) {
      callers_.push_back(std::make_unique<Caller>(s_, &job_, r, ledger));
    }
    for (int64_t frame : s_.fault_frames) job_.network().CorruptFragment(frame);
  }

  // False: somebody waits forever.
  bool ToTheEnd() {
    const SimJob::Callers callers = {.work = [this](int rank) { return Work(rank); },
                                     .next_ns = [this] { return NextNs(); }};
    return job_.RunUntil([this] { return Done(); }, kBoundNs, callers);
  }

  bool kills() const { return s_.fault == FaultKind::kKill; }
  SimJob& job() { return job_; }
  const Caller& caller(int rank) const { return *callers_[rank]; }
  std::vector<int> Survivors() const {
    std::vector<int> ranks;
    for (int r = 0; r < job_.size(); ++r) {
      if (job_.alive(r)) ranks.push_back(r);
    }
    return ranks;
  }
  std::string Describe() {
    std::string text;
    for (int r : Survivors()) {
      text += fmt::format("rank {}: turn {}, {} records, {}, {} {}\n", r, job_[r].turn(),
                          callers_[r]->records().size(),
                          callers_[r]->finished() ? "finished" : "not finished",
                          job_[r].core().DescribeWaiting(), job_[r].fatal().ToString());
    }
    return text;
  }

 private:
  bool Work(int rank) {
    if (kills() && rank == s_.fault_rank && job_.now_ns() >= s_.fault_ns) {
      job_.Kill(rank);
      return true;
    }
    return callers_[rank]->Work();
  }
  int64_t NextNs() const {
    int64_t next = kills() && job_.alive(s_.fault_rank) ? s_.fault_ns : INT64_MAX;
    for (int r : Survivors()) next = std::min(next, callers_[r]->next_ns());
    return next;
  }
  // Nothing may be left anywhere: also what a rank does after its last step.
  bool Done() {
    if (kills() && job_.alive(s_.fault_rank)) return false;
    for (int r : Survivors()) {
      const bool fatal = !job_[r].fatal().ok();
      if (kills() ? !fatal : !callers_[r]->over()) return false;
      const bool coming = !job_[r].core().fatal().ok() || !job_[r].core().idle();
      if (!fatal && coming) return false;
    }
    return true;
  }

  const Scenario s_;
  SimJob job_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

// Each of these is "" if all is well.

// All ranks hear the same outcome of every turn, and hold the same results.
std::string CheckAgreement(Run& run) {
  const std::vector<int> ranks = run.Survivors();
  for (int r : ranks) {
    const std::vector<TurnResult>& mine = run.job()[r].results();
    const std::vector<TurnResult>& first = run.job()[ranks[0]].results();
    for (size_t t = 0; t < std::min(mine.size(), first.size()); ++t) {
      if (mine[t].outcome != first[t].outcome || mine[t].step != first[t].step ||
          mine[t].reason.code() != first[t].reason.code()) {
        return fmt::format("ranks {} and {} were told different results of turn {}: {} | {}", r,
                           ranks[0], t, mine[t].reason.ToString(), first[t].reason.ToString());
      }
    }
    const std::vector<StepRecord>& records = run.caller(r).records();
    const std::vector<StepRecord>& firsts = run.caller(ranks[0]).records();
    for (size_t i = 0; i < std::min(records.size(), firsts.size()); ++i) {
      if (records[i].common != firsts[i].common) {
        return fmt::format("ranks {} and {} hold different results in record {}", r, ranks[0], i);
      }
      if (!records[i].finite) {
        return fmt::format("a residual in record {} of rank {} is not finite", i, r);
      }
    }
  }
  return "";
}

// Ranks that disagree are told in what, and the same values.
std::string CheckMismatches(Run& run) {
  const auto values = [](const ErrorDetail& d) { return std::minmax(d.expected, d.actual); };
  const std::vector<int> ranks = run.Survivors();
  for (int r : ranks) {
    const std::vector<TurnResult>& mine = run.job()[r].results();
    const std::vector<TurnResult>& first = run.job()[ranks[0]].results();
    for (size_t t = 0; t < std::min(mine.size(), first.size()); ++t) {
      const ErrorDetail &d = mine[t].reason.detail(), &other = first[t].reason.detail();
      const bool told = !d.field.empty() && d.expected != d.actual;
      const bool same = d.field == other.field && values(d) == values(other);
      if (mine[t].reason.code() == gwMismatch && !(told && same)) {
        return fmt::format("ranks {} and {} were told of turn {}: {} | {}", r, ranks[0], t,
                           mine[t].reason.ToString(), first[t].reason.ToString());
      }
    }
  }
  return "";
}

// Without transactions an aborted attempt may have changed residuals on some of the ranks.
bool Equal(const StepRecord& a, const StepRecord& b, bool transaction) {
  const bool same = a.number == b.number && a.outcome == b.outcome && a.exact == b.exact;
  if (!transaction && a.disturbed) return same;
  return same && a.sums == b.sums && a.residuals == b.residuals;
}

// What ranks committed is what they commit when nothing goes wrong: outputs and residuals.
std::string CheckAgainst(const Scenario& s, Run& run, const Run& reference) {
  for (int r : run.Survivors()) {
    const std::vector<StepRecord>& records = run.caller(r).records();
    const std::vector<StepRecord>& expected = reference.caller(r).records();
    const bool all = run.job()[r].fatal().ok();
    if (records.size() > expected.size() || (all && records.size() < expected.size())) {
      return fmt::format("rank {} has {} records, not {}", r, records.size(), expected.size());
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (!Equal(records[i], expected[i], s.job.transaction)) {
        return fmt::format("record {} of rank {} (step {}) is not that of a job without trouble", i,
                           r, records[i].number);
      }
    }
  }
  return "";
}

bool HasAborts(Run& run, gwResult_t code) {
  for (const TurnResult& result : run.job()[run.Survivors()[0]].results()) {
    if (result.outcome == StepOutcome::kAbort && result.reason.code() == code) return true;
  }
  return false;
}

// The values of a step that nobody waits for may end the job.
bool MayEndForItsValues(const Scenario& s) {
  return s.job.nonfinite == NonFinitePolicy::kError &&
         std::any_of(s.steps.begin(), s.steps.end(), [](const ScenarioStep& step) {
           return step.no_wait && step.infinite_rank >= 0;
         });
}

// A communicator ends only for the reason that it must.
std::string CheckFatal(const Scenario& s, Run& run) {
  const bool unwitnessed = std::any_of(s.steps.begin(), s.steps.end(),
                                       [](const ScenarioStep& step) { return step.no_wait; });
  int fatal = 0;
  for (int r : run.Survivors()) {
    const Status& status = run.job()[r].fatal();
    if (status.ok()) continue;
    ++fatal;
    const bool before = MayEndForItsValues(s) && status.code() == gwRevoked;
    const bool expected = s.fault == FaultKind::kKill && !before
                              ? status.code() == gwPeerLost && status.detail().peer == s.fault_rank
                              : unwitnessed && status.code() == gwRevoked;
    if (!expected) return fmt::format("rank {} ended for: {}", r, status.ToString());
  }
  if (fatal == 0 || fatal == static_cast<int>(run.Survivors().size())) return "";
  return "some ranks are dead, others are not\n" + run.Describe();
}

// Nothing is aborted but for its own values, where the policy says so: those of one step with an
// infinity, once.
std::string CheckAbortsOfValues(const Scenario& s, Run& run) {
  const std::vector<TurnResult>& results = run.job()[0].results();
  for (size_t t = 0; t < results.size(); ++t) {
    if (results[t].outcome != StepOutcome::kAbort) continue;
    const bool infinite =
        std::any_of(s.steps.begin(), s.steps.end(), [&](const ScenarioStep& step) {
          return step.number == results[t].step && step.infinite_rank >= 0;
        });
    if (results[t].reason.code() != gwNonFinite || s.job.nonfinite != NonFinitePolicy::kError ||
        !infinite) {
      return "aborted: " + results[t].reason.ToString();
    }
    if (t > 0 && results[t - 1].outcome == StepOutcome::kAbort) return "repaired, yet aborted";
  }
  return "";
}

// What the fault must have led to, if the job comes to it.
std::string CheckFault(const Scenario& s, Run& run) {
  const auto expect_abort = [&](bool expected, gwResult_t code) -> std::string {
    if (!expected || HasAborts(run, code)) return "";
    return fmt::format("no step was aborted with result {}", static_cast<int>(code));
  };
  switch (s.fault) {
    case FaultKind::kNone: return CheckAbortsOfValues(s, run);
    case FaultKind::kOtherOp: {
      const ScenarioOp& op = s.steps[s.fault_step].ops[s.fault_op];
      const bool barrier = op.row != nullptr && op.row->collective == Collective::kBarrier;
      return expect_abort(!barrier, gwMismatch);
    }
    case FaultKind::kFewerOps:
    case FaultKind::kMoreOps:
    case FaultKind::kOtherStep: return expect_abort(true, gwMismatch);
    case FaultKind::kStall: {
      const std::vector<ScenarioOp>& ops = s.steps[s.fault_step].ops;
      const bool all_meet = std::any_of(ops.begin(), ops.end(),
                                        [](const ScenarioOp& op) { return op.row == nullptr; });
      return expect_abort(all_meet, gwTimeout);
    }
    case FaultKind::kCorrupt:
    case FaultKind::kKill: return "";
  }
  return "";
}

// sum(g + e) = out + sum e'.
std::string CheckConservation(const Scenario& s, const Ledger& ledger) {
  for (const auto& [key, b] : ledger) {
    if (b.ranks != s.job.world_size) continue;
    for (size_t i = 0; i < b.out.size(); ++i) {
      // NaN is an error too.
      if (!(std::abs(b.in[i] - b.out[i]) <= 1e-6 * b.size[i])) {
        return fmt::format("step {} tensor {} element {}: {} went in, {} came out or was kept",
                           key.first, key.second, i, b.in[i], b.out[i]);
      }
    }
  }
  return "";
}

SimVerdict CheckScenario(const Scenario& scenario) {
  Ledger ledger;
  const Scenario calm = WithoutTrouble(scenario);
  Run reference(calm, &ledger);
  if (!reference.ToTheEnd()) return {true, "without trouble it hangs\n" + reference.Describe()};
  Run run(scenario, nullptr);
  const bool hung = !run.ToTheEnd();
  // A step that nobody waits for may end the job before, for its values.
  const bool reached =
      reference.caller(0).records().size() >= static_cast<size_t>(scenario.fault_step);
  // In this order: the first complaint tells most.
  const std::function<std::string()> checks[] = {
      [&] { return CheckFault(calm, reference); },
      [&] { return CheckFatal(calm, reference); },
      [&] { return CheckAgreement(reference); },
      [&] { return CheckConservation(scenario, ledger); },
      [&] { return hung ? "it hangs\n" + run.Describe() : ""; },
      [&] { return CheckFatal(scenario, run); },
      [&] { return CheckAgreement(run); },
      [&] { return CheckMismatches(run); },
      [&] { return CheckAgainst(scenario, run, reference); },
      [&] { return reached ? CheckFault(scenario, run) : ""; }};
  for (const auto& check : checks) {
    if (std::string complaint = check(); !complaint.empty()) return {hung, std::move(complaint)};
  }
  return {};
}

}  // namespace

SimVerdict CheckSimSeed(uint64_t seed) {
  const Scenario s = DrawScenario(seed);
  SimVerdict verdict = CheckScenario(s);
  if (verdict.complaint.empty()) return verdict;
  verdict.complaint =
      fmt::format("seed {}: {} ranks, {} steps, {} at rank {} in step {}{}: {}", seed,
                  s.job.world_size, s.steps.size(), ToString(s.fault), s.fault_rank, s.fault_step,
                  s.job.transaction ? "" : ", without transactions", verdict.complaint);
  return verdict;
}

}  // namespace gradwire
