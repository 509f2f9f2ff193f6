#include "cli/diagnose/diagnosis_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ranks_text.h"
#include "base/status.h"
#include "cli/text_output.h"
#include "runtime/recorder/entry_text.h"

namespace gradwire {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kShownOps = 20;

std::string SecondsText(int64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-9);
}

std::string RankList(const std::vector<int>& ranks) {
  if (ranks.empty()) return "-";
  const std::string text = RanksText(ranks);
  return text.substr(text.find(' ') + 1);
}

std::string OpText(const std::optional<LastOperation>& last) {
  if (!last) return "-";
  return fmt::format("#{} {}{}", last->at.number(), last->op.text,
                     last->op.complete ? "" : " (open)");
}

std::string RankTable(const JobRecord& job) {
  Rows rows = {{"# rank", "host", "pid", "events", "s_before_end", "last_operation", "last_event"}};
  const auto operations = LastOperations(job);
  for (int rank = 0; rank < job.world_size; ++rank) {
    const RankRecord& record = job.ranks[rank];
    if (!record.present) {
      rows.push_back({fmt::format("{}", rank), "-", "-", "-", "-", "-", "no readable file"});
      continue;
    }
    const auto& header = record.log.header;
    const bool empty = record.last() == nullptr;
    rows.push_back({fmt::format("{}", rank), std::string(TextOf(header.host)),
                    fmt::format("{}", header.pid),
                    fmt::format("{}", record.log.overwritten + record.log.entries.size()),
                    empty ? "-" : SecondsText(job.end_wall_ns - record.end_wall_ns),
                    OpText(operations[rank]), empty ? "-" : DescribeEntry(*record.last())});
  }
  return FormatColumns(rows);
}

std::string OperationTable(const JobRecord& job) {
  const std::vector<OpState> ops = UnfinishedOps(job);
  if (ops.empty()) return "";
  Rows rows = {{"# operation", "what", "done", "open", "never_submitted", "unknown", "differs"}};
  for (size_t i = 0; i < std::min(ops.size(), kShownOps); ++i) {
    const OpState& op = ops[i];
    rows.push_back({fmt::format("#{}", op.at.number()), op.text, RankList(op.done),
                    RankList(op.open), RankList(op.missing), RankList(op.unknown),
                    op.differs ? "yes" : "-"});
  }
  std::string text = "\n" + FormatColumns(rows);
  if (ops.size() > kShownOps) text += fmt::format("# and {} more\n", ops.size() - kShownOps);
  return text;
}

// Of the last turn in which anybody voted.
std::string VoteTable(const JobRecord& job) {
  if (job.votes.empty()) return "";
  const auto& votes = job.votes.rbegin()->second;
  Rows rows = {{"# rank", "vote", "operations", "why"}};
  for (int rank = 0; rank < job.world_size; ++rank) {
    const auto vote = votes.find(rank);
    if (vote == votes.end()) {
      rows.push_back({fmt::format("{}", rank), "none", "-", "no vote is recorded"});
      continue;
    }
    const RecorderEntry& e = vote->second;
    const bool yes = e.status == gwSuccess;
    const std::string why =
        yes ? "-"
            : fmt::format("{}: {}", ResultText(static_cast<gwResult_t>(e.status)), EntryText(e));
    rows.push_back(
        {fmt::format("{}", rank), yes ? "yes" : "no", fmt::format("{}", OperationCount(e)), why});
  }
  return "\n# the last vote\n" + FormatColumns(rows);
}

std::string EventTable(const JobRecord& job, int64_t last) {
  if (last <= 0) return "";
  Rows rows = {{"# s_before_end", "rank", "event"}};
  for (const TimedEntry& timed : LastEntries(job, last)) {
    rows.push_back({SecondsText(job.end_wall_ns - timed.wall_ns), fmt::format("{}", timed.rank),
                    DescribeEntry(*timed.entry)});
  }
  return "\n" + FormatColumns(rows);
}

}  // namespace

std::vector<std::optional<LastOperation>> LastOperations(const JobRecord& job) {
  std::vector<std::optional<LastOperation>> last(job.world_size);
  for (const auto& [at, op] : job.ops) {
    for (const auto& [rank, on_rank] : op) last[rank] = LastOperation{at, on_rank};
  }
  return last;
}

std::vector<TimedEntry> LastEntries(const JobRecord& job, int64_t count) {
  std::vector<TimedEntry> all;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const RecorderLog& log = job.ranks[rank].log;
    const int64_t size = static_cast<int64_t>(log.entries.size());
    for (int64_t i = std::max<int64_t>(0, size - count); i < size; ++i) {
      all.push_back({log.WallNs(log.entries[i].time_ns), rank, &log.entries[i]});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TimedEntry& a, const TimedEntry& b) { return a.wall_ns < b.wall_ns; });
  if (static_cast<int64_t>(all.size()) > count) all.erase(all.begin(), all.end() - count);
  return all;
}

std::string DiagnosisText(const JobRecord& job, const Diagnosis& diagnosis, int64_t last) {
  const auto files = std::count_if(job.ranks.begin(), job.ranks.end(),
                                   [](const RankRecord& r) { return r.present; });
  std::string text =
      fmt::format("# job {:016x}: {} ranks, files of {}, last event {} UTC\nverdict: {}\n", job.job,
                  job.world_size, files, UtcText(job.end_wall_ns), diagnosis.verdict);
  for (const Finding& finding : diagnosis.findings) {
    if (finding.text != diagnosis.verdict) text += fmt::format("also: {}\n", finding.text);
  }
  return text + "\n" + RankTable(job) + OperationTable(job) + VoteTable(job) +
         EventTable(job, last);
}

}  // namespace gradwire
