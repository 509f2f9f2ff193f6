#include "runtime/recorder/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/ranks_text.h"
#include "runtime/recorder/disagreement.h"
#include "runtime/recorder/entry_text.h"

namespace gradwire {
namespace {

std::string BeforeEnd(const JobRecord& job, const RankRecord& record) {
  return fmt::format("{:.3f} s before the job's last event",
                     static_cast<double>(job.end_wall_ns - record.end_wall_ns) * 1e-9);
}

// How a rank's file ends, as the second half of a sentence.
std::string EndText(const JobRecord& job, int rank) {
  const RankRecord& record = job.ranks[rank];
  if (!record.present) return "it left no readable file";
  if (record.closed) return "it had closed the communicator";
  if (record.error) return "it had failed first: " + DescribeEntry(*record.error);
  if (record.last() == nullptr) return "its file has no readable entry";
  return fmt::format("its file ends {}, with: {} (killed or stopped?)", BeforeEnd(job, record),
                     DescribeEntry(*record.last()));
}

// ---- ranks that are gone ----

// Ranks that are reported lost, but reported nothing themselves: silent deaths, in the order in
// which they were noticed. Where all of them spoke, the first report counts: who comes back from a
// pause finds the others gone.
std::vector<int> LostRanks(const JobRecord& job) {
  std::set<int> speakers;
  for (const Report& report : job.losses) speakers.insert(report.rank);
  std::vector<int> lost, silent;
  for (const Report& report : job.losses) {
    const int rank = report.entry.peer;
    if (rank < 0 || rank >= job.world_size) continue;
    if (std::find(lost.begin(), lost.end(), rank) != lost.end()) continue;
    lost.push_back(rank);
    if (speakers.count(rank) == 0) silent.push_back(rank);
  }
  if (silent.empty() && !lost.empty()) return {lost.front()};
  return silent;
}

std::vector<Finding> Losses(const JobRecord& job) {
  std::vector<Finding> findings;
  for (const int rank : LostRanks(job)) {
    std::set<int> reporters;
    std::string how;
    for (const Report& report : job.losses) {
      if (report.entry.peer != rank) continue;
      reporters.insert(report.rank);
      if (how.empty()) how = EntryText(report.entry);
    }
    findings.push_back(
        {.kind = FindingKind::kLost,
         .culprits = {rank},
         .text = fmt::format("rank {} was lost{}{}, as {} recorded; {}", rank,
                             how.empty() ? "" : ": ", how,
                             RanksText({reporters.begin(), reporters.end()}), EndText(job, rank))});
  }
  return findings;
}

// ---- ranks that failed ----

// Codes that say what another rank did, or that somebody waited too long.
bool IsConsequence(int32_t code) {
  return code == gwSuccess || code == gwPeerLost || code == gwAborted || code == gwRevoked ||
         code == gwTimeout || code == gwRemoteError || code == gwInProgress;
}

// The first error that is nobody else's and that no later commit survived.
std::optional<Finding> Failure(const JobRecord& job) {
  std::vector<Report> candidates;
  for (const auto* reports : {&job.revokes, &job.results}) {
    std::copy_if(reports->begin(), reports->end(), std::back_inserter(candidates),
                 [&](const Report& r) { return r.turn > job.last_committed; });
  }
  for (int rank = 0; rank < job.world_size; ++rank) {
    const RankRecord& record = job.ranks[rank];
    if (!record.error) continue;
    candidates.push_back({.rank = rank,
                          .wall_ns = record.log.WallNs(record.error->time_ns),
                          .entry = *record.error});
  }
  std::erase_if(candidates, [](const Report& r) { return IsConsequence(r.entry.status); });
  if (candidates.empty()) return std::nullopt;
  const Report& first =
      *std::min_element(candidates.begin(), candidates.end(),
                        [](const Report& a, const Report& b) { return a.wall_ns < b.wall_ns; });
  const bool revoke = first.entry.kind == RecordKind::kRevoke;
  const int finder = revoke && first.entry.value >= 0 && first.entry.value < job.world_size
                         ? first.entry.value
                         : first.rank;
  const bool named = first.entry.peer >= 0 && first.entry.peer < job.world_size;
  std::vector<int> culprits = {named ? first.entry.peer : finder};
  // All ranks record the same result: who was first with it found nothing.
  if (!named && first.entry.kind == RecordKind::kResult) culprits.clear();
  return Finding{.kind = FindingKind::kFailed,
                 .culprits = std::move(culprits),
                 .text = fmt::format("rank {}: {}", first.rank, DescribeEntry(first.entry))};
}

// ---- ranks that are late ----

std::string WhereText(const JobRecord& job, int rank, OpPosition at) {
  const RankRecord& record = job.ranks[rank];
  if (const auto ended = record.ended.find(at.turn); ended != record.ended.end()) {
    return fmt::format("rank {} ended its step after {} operations", rank, ended->second);
  }
  if (record.closed) return fmt::format("rank {} had closed the communicator", rank);
  const std::string inside =
      record.open_step ? fmt::format(" (in step {})", *record.open_step) : std::string();
  return fmt::format("rank {}{}'s last event, {}: {}", rank, inside, BeforeEnd(job, record),
                     DescribeEntry(*record.last()));
}

std::optional<Finding> NeverSubmitted(const JobRecord& job, const std::vector<OpState>& ops) {
  for (const OpState& op : ops) {
    if (op.missing.empty() || op.open.empty()) continue;
    std::string text = fmt::format("{} never submitted {}, in which {} wait{}",
                                   RanksText(op.missing), OperationText(op.at.number(), op.text),
                                   RanksText(op.open), op.open.size() == 1 ? "s" : "");
    constexpr size_t kDetails = 3;
    for (size_t i = 0; i < std::min(op.missing.size(), kDetails); ++i) {
      text += "; " + WhereText(job, op.missing[i], op.at);
    }
    return Finding{FindingKind::kNeverSubmitted, op.missing, std::move(text)};
  }
  return std::nullopt;
}

// Follows who waits for whom to the rank that waits for nobody.
std::optional<Finding> Awaited(const JobRecord& job) {
  const auto waits = std::find_if(job.ranks.begin(), job.ranks.end(), [](const RankRecord& r) {
    return r.waiting && r.waiting->peer >= 0;
  });
  if (waits == job.ranks.end()) return std::nullopt;
  int rank = static_cast<int>(waits - job.ranks.begin());
  std::vector<int> chain;
  while (std::find(chain.begin(), chain.end(), rank) == chain.end()) {
    chain.push_back(rank);
    const auto& waiting = job.ranks[rank].waiting;
    if (!waiting || waiting->peer < 0 || waiting->peer >= job.world_size) break;
    rank = waiting->peer;
  }
  std::string text = "ranks wait for each other: ";
  for (size_t i = 0; i < chain.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? " for " : "", chain[i]);
  const bool circle = chain.back() != rank;
  if (circle) return Finding{FindingKind::kAwaited, {}, text + fmt::format(" for {}", rank)};
  return Finding{FindingKind::kAwaited,
                 {rank},
                 fmt::format("{}; rank {}: {}", text, rank, EndText(job, rank))};
}

// ---- files ----

void AddFileNotes(const JobRecord& job, std::vector<Finding>* findings) {
  std::vector<int> without;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const RankRecord& record = job.ranks[rank];
    if (!record.present) without.push_back(rank);
    if (record.log.damaged == 0) continue;
    const char* const cut = record.log.damaged == 1 && !record.closed
                                ? ": it ended while it wrote it"
                                : ": the file was damaged";
    findings->push_back(
        {.text = fmt::format("rank {}'s file has {} unreadable entr{}{}", rank, record.log.damaged,
                             record.log.damaged == 1 ? "y" : "ies", cut)});
  }
  if (without.empty()) return;
  findings->push_back({FindingKind::kNoFile, without,
                       fmt::format("no readable file of {}: never started, or another folder?",
                                   RanksText(without))});
}

bool AllClosed(const JobRecord& job) {
  return std::all_of(job.ranks.begin(), job.ranks.end(),
                     [](const RankRecord& r) { return r.closed; });
}

void AddSurvived(const JobRecord& job, std::vector<Finding>* findings) {
  int aborted = 0, skipped = 0;
  std::set<int64_t> turns;
  for (const Report& result : job.results) {
    if (result.turn > job.last_committed || !turns.insert(result.turn).second) continue;
    aborted += result.entry.value == 2;
    skipped += result.entry.value == 1;
  }
  if (aborted + skipped == 0) return;
  findings->push_back({.text = fmt::format("earlier, {} step{} aborted and {} skipped: survived",
                                           aborted, aborted == 1 ? " was" : "s were", skipped)});
}

}  // namespace

std::vector<OpState> UnfinishedOps(const JobRecord& job) {
  std::vector<OpState> states;
  for (auto it = job.ops.upper_bound({job.last_committed, INT64_MAX}); it != job.ops.end(); ++it) {
    const auto& [at, op] = *it;
    OpState state = {.at = at, .text = op.begin()->second.text, .differs = Differs(op)};
    for (int rank = 0; rank < job.world_size; ++rank) {
      if (const auto on_rank = op.find(rank); on_rank != op.end()) {
        const bool done = on_rank->second.complete && on_rank->second.status == gwSuccess;
        (done ? state.done : state.open).push_back(rank);
        continue;
      }
      const std::optional<bool> submitted = job.Submitted(rank, at);
      (submitted.value_or(true) ? state.unknown : state.missing).push_back(rank);
    }
    if (state.open.empty() && state.missing.empty() && !state.differs) continue;
    states.push_back(std::move(state));
  }
  // Aborted turns matter only where they were the end.
  std::set<int64_t> over;
  for (const Report& result : job.results) over.insert(result.turn);
  const bool under_way = std::any_of(states.begin(), states.end(),
                                     [&](const OpState& s) { return over.count(s.at.turn) == 0; });
  const int64_t last_turn = states.empty() ? 0 : states.back().at.turn;
  std::erase_if(states, [&](const OpState& s) {
    return under_way ? over.count(s.at.turn) > 0 : s.at.turn != last_turn;
  });
  return states;
}

Diagnosis Diagnose(const JobRecord& job) {
  Diagnosis diagnosis;
  std::vector<Finding>& findings = diagnosis.findings;
  const auto add = [&](std::optional<Finding> finding) {
    if (finding) findings.push_back(std::move(*finding));
  };
  add(OperationDisagreement(job));
  add(CountDisagreement(job));
  add(Failure(job));
  const std::vector<Finding> losses = Losses(job);
  findings.insert(findings.end(), losses.begin(), losses.end());
  add(NeverSubmitted(job, UnfinishedOps(job)));
  if (!AllClosed(job)) add(Awaited(job));
  AddFileNotes(job, &findings);
  AddSurvived(job, &findings);
  const auto first = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& f) { return !f.culprits.empty(); });
  if (first != findings.end()) {
    diagnosis.culprits = first->culprits;
    diagnosis.verdict = first->text;
  } else if (AllClosed(job)) {
    diagnosis.verdict = "all ranks ended as they should";
  } else {
    diagnosis.verdict = "nothing points at a rank: still running, or ended from outside";
  }
  return diagnosis;
}

}  // namespace gradwire
