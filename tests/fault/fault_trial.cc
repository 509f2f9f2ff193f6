#include "tests/fault/fault_trial.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <string_view>
#include <vector>

#include "base/failpoint.h"
#include "base/rng.h"
#include "tests/fault/rank_processes.h"
#include "tests/fault/rank_program.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int64_t kStartBoundNs = 20'000 * kNsPerMs;
constexpr int64_t kHardBoundNs = 12'000 * kNsPerMs;  // after the fault
// heartbeat_timeout_ms of such trials, and what a busy machine adds. Before, while ranks meet, it
// is init_timeout_ms that ends a wait, and a second later for who has met rank 0 already.
constexpr int64_t kStopBoundNs = kSlowness * 2'000 * kNsPerMs;

int64_t ErrorBoundNs(const FaultTrial& trial) {
  const bool has_heartbeats = trial.phase != Phase::kInit;
  return trial.fault == Fault::kStop && has_heartbeats ? kStopBoundNs : kErrorBoundNs;
}

// "rank 2", "peer 2", "ranks 2 of 4": it alone.
bool NamesRank(const std::string& text, int rank) {
  return std::regex_search(text, std::regex(fmt::format(R"(\b(rank|ranks|peer) {}\b(?!,))", rank)));
}

// What every error of a running job says: "; peer 2; operation barrier".
bool NamesCulpritAndCall(const RankReport& report, int culprit) {
  return std::regex_search(
      report.text,
      std::regex(fmt::format(R"(; peer {}; operation {}\b( #\d+)?[;.])", culprit, report.call)));
}

struct Survivor {
  bool has_error = false, is_done = false, is_void = false;
  std::string last;
};

// Collects reports and judges them.
class Watch {
 public:
  Watch(const FaultTrial& trial, RankProcesses* ranks)
      : trial_(trial), ranks_(ranks), survivors_(trial.world_size) {}

  // All ranks are in the phase; then the delay.
  bool AwaitPhase() {
    const int64_t deadline_ns = NowNs() + kStartBoundNs;
    for (int ready = 0; ready < trial_.world_size;) {
      const std::optional<RankReport> report = ranks_->Next(deadline_ns);
      if (!report) return Complain("not all ranks reached the phase");
      if (report->kind == ReportKind::kError) {
        return Complain(
            fmt::format("rank {} failed before the fault: {}", report->rank, report->text));
      }
      ready += report->kind == ReportKind::kReady ? 1 : 0;
      if (report->kind != ReportKind::kReady) Take(*report);
    }
    const int64_t fault_ns = NowNs() + trial_.delay_ns;
    while (const std::optional<RankReport> report = ranks_->Next(fault_ns)) Take(*report);
    return true;
  }

  // The victim strikes itself, before the deadline of the start.
  void AwaitSelfKill() {
    const int64_t deadline_ns = NowNs() + kStartBoundNs;
    while (NowNs() < deadline_ns && ranks_->EndedBy(trial_.victim) != SIGKILL) {
      if (const std::optional<RankReport> report = ranks_->Next(NowNs() + kNsPerMs))
        early_.push_back(*report);
    }
    fault_ns_ = NowNs();
    if (ranks_->EndedBy(trial_.victim) != SIGKILL) Complain("the failpoint was not met");
    for (const RankReport& report : early_) Take(report);
  }

  void Strike() {
    fault_ns_ = NowNs();
    switch (trial_.fault) {
      case Fault::kKill: return ranks_->Signal(trial_.victim, SIGKILL);
      case Fault::kStop: return ranks_->Signal(trial_.victim, SIGSTOP);
      case Fault::kAbort: return ranks_->Go(trial_.victim);
    }
  }

  TrialResult AwaitEnd() {
    const int64_t deadline_ns = fault_ns_ + kHardBoundNs;
    while (!ranks_->all_gone() && NowNs() < deadline_ns) {
      if (const std::optional<RankReport> report = ranks_->Next(deadline_ns)) Take(*report);
      if (trial_.fault == Fault::kStop && SurvivorsThrough())
        ranks_->Signal(trial_.victim, SIGKILL);
    }
    result_.hung = !ranks_->all_gone();
    if (result_.hung) Complain("hung");
    result_.killed = !result_.hung && ranks_->EndedBy(trial_.victim) == SIGKILL;
    for (int rank = 0; rank < trial_.world_size; ++rank) JudgeEnd(rank);
    return result_;
  }

  bool Complain(const std::string& what) {
    result_.complaint += fmt::format("{}\n", what);
    for (int rank = 0; rank < trial_.world_size; ++rank) {
      const Survivor& s = survivors_[rank];
      result_.complaint +=
          fmt::format("  rank {}{}: {}\n", rank, rank == trial_.victim ? " (victim)" : "",
                      s.last.empty() ? "no word" : s.last);
    }
    return false;
  }
  const TrialResult& result() const { return result_; }

 private:
  bool SurvivorsThrough() const {
    for (int rank = 0; rank < trial_.world_size; ++rank) {
      const Survivor& s = survivors_[rank];
      if (rank != trial_.victim && !s.is_done && !s.is_void) return false;
    }
    return true;
  }

  void Take(const RankReport& report) {
    Survivor& survivor = survivors_[report.rank];
    switch (report.kind) {
      case ReportKind::kReady: return;
      case ReportKind::kDone: survivor.is_done = true; return;
      case ReportKind::kVoid: survivor.is_void = true; return;
      case ReportKind::kFailed:
        (void)Complain(fmt::format("rank {}: {}", report.rank, report.text));
        return;
      case ReportKind::kTimed: return TakeTime(report);
      case ReportKind::kError: return TakeError(report);
    }
  }

  void TakeTime(const RankReport& report) {
    result_.worst_return_ns = std::max(result_.worst_return_ns, report.code * kNsPerMs);
    if (report.code * kNsPerMs > kReturnBoundNs)
      Complain(fmt::format("rank {}: {} took {} ms", report.rank, report.text, report.code));
  }

  void TakeError(const RankReport& report) {
    Survivor& survivor = survivors_[report.rank];
    survivor.has_error = true;
    survivor.last = report.text;
    if (report.rank == trial_.victim) return;
    const int64_t took_ns = report.time_ns - fault_ns_;
    result_.worst_error_ns = std::max(result_.worst_error_ns, took_ns);
    if (took_ns > ErrorBoundNs(trial_))
      Complain(fmt::format("rank {} was told after {} ms", report.rank, took_ns / kNsPerMs));
    const bool running = trial_.phase == Phase::kCollectives || trial_.phase == Phase::kSteps;
    if (running ? NamesCulpritAndCall(report, trial_.victim)
                : NamesRank(report.text, trial_.victim)) {
      ++result_.told;
    } else {
      Complain(fmt::format("rank {} does not name rank {}{}", report.rank, trial_.victim,
                           running ? fmt::format(" and {}", report.call) : ""));
    }
  }

  void JudgeEnd(int rank) {
    const Survivor& s = survivors_[rank];
    // A sanitizer, too, ends a rank that had its error already.
    if (rank != trial_.victim && !s.is_done && !s.is_void)
      Complain(fmt::format("rank {} did not come to its end", rank));
    // Who had left before the fault heard nothing of it, and need not. Rank 0 leaves after all who
    // say BYE.
    const bool died_before_bye = !trial_.failpoint.empty();
    const bool may_succeed =
        trial_.phase == Phase::kFinalize && s.is_done && !(died_before_bye && rank == 0);
    if (rank == trial_.victim || s.has_error || s.is_void || may_succeed) return;
    Complain(fmt::format("rank {} got no error", rank));
  }

  const FaultTrial& trial_;
  RankProcesses* const ranks_;
  std::vector<Survivor> survivors_;
  std::vector<RankReport> early_;  // from before the death was seen
  TrialResult result_;
  int64_t fault_ns_ = 0;
};

}  // namespace

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kInit: return "init";
    case Phase::kCollectives: return "collectives";
    case Phase::kSteps: return "steps";
    case Phase::kFinalize: return "finalize";
  }
  return "";
}

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kKill: return "kill";
    case Fault::kStop: return "stop";
    case Fault::kAbort: return "abort";
  }
  return "";
}

std::string FaultTrial::Describe() const {
  if (!failpoint.empty()) {
    return fmt::format("{} rank {} of {} over {} in {} at failpoint {}", Name(fault), victim,
                       world_size, transport, Name(phase), failpoint);
  }
  return fmt::format("{} rank {} of {} over {} in {} after {} us", Name(fault), victim, world_size,
                     transport, Name(phase), delay_ns / 1000);
}

FaultTrial RandomTrial(uint64_t seed, Fault fault, Phase phase) {
  RandomStream random(seed);
  FaultTrial trial = {.fault = fault, .phase = phase};
  trial.world_size = 2 + static_cast<int>(random.Below(3));
  trial.victim = static_cast<int>(random.Below(trial.world_size));
  // As long as the phase takes, or some operations.
  const bool short_phase = phase == Phase::kFinalize;
  trial.delay_ns = static_cast<int64_t>(random.Below(short_phase ? 4'000'000 : 40'000'000));
  const std::vector<std::string> transports = ProcessTransports();
  trial.transport = transports[random.Below(transports.size())];
  return trial;
}

std::vector<FaultTrial> FailpointTrials() {
  constexpr int kRanks = 3;
  struct Place {
    Phase phase;
    Failpoint failpoint;
    int passes;   // before the one that kills: not always the first of the job
    int victims;  // ranks 0 to victims - 1 come by
  };
  constexpr Place kPlaces[] = {
      {Phase::kInit, Failpoint::kHello, 0, kRanks},
      {Phase::kInit, Failpoint::kRoster, 0, kRanks},
      {Phase::kCollectives, Failpoint::kSlice, 20, kRanks},
      {Phase::kSteps, Failpoint::kSlice, 20, kRanks},
      {Phase::kCollectives, Failpoint::kFragment, 50, kRanks},
      {Phase::kSteps, Failpoint::kFragment, 50, kRanks},
      {Phase::kSteps, Failpoint::kVote, 3, kRanks},
      {Phase::kSteps, Failpoint::kResult, 3, 1},
      {Phase::kSteps, Failpoint::kCommit, 3, kRanks},
      {Phase::kFinalize, Failpoint::kBye, 0, kRanks},
  };
  const std::vector<std::string> transports = ProcessTransports();
  std::vector<FaultTrial> trials;
  for (const Place& place : kPlaces) {
    const std::string_view name = kFailpointNames[static_cast<size_t>(place.failpoint)];
    for (int victim = 0; victim < place.victims; ++victim) {
      trials.push_back({.phase = place.phase,
                        .world_size = kRanks,
                        .victim = victim,
                        .transport = transports[trials.size() % transports.size()],
                        .failpoint = fmt::format("{}:{}", name, place.passes + 1)});
    }
  }
  return trials;
}

TrialResult RunTrial(const FaultTrial& trial) {
  RankProcesses ranks(trial.world_size, [&](RankSide& side) { RankProgram(trial, &side).Run(); });
  Watch watch(trial, &ranks);
  if (!trial.failpoint.empty()) {
    watch.AwaitSelfKill();
    return watch.AwaitEnd();
  }
  if (!watch.AwaitPhase()) return watch.result();
  watch.Strike();
  return watch.AwaitEnd();
}

}  // namespace gradwire
