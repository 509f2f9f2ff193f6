#include "runtime/recorder/job_record.h"

#include <algorithm>
#include <utility>

#include "base/wrapping.h"
#include "runtime/recorder/entry_text.h"

namespace gradwire {
namespace {

constexpr int64_t kTurns = 1 << 16;

// Kinds whose `turn` is set.
bool HasTurn(RecordKind kind) {
  switch (kind) {
    case RecordKind::kStepEnd:
    case RecordKind::kSubmit:
    case RecordKind::kAdmit:
    case RecordKind::kSliceDone:
    case RecordKind::kComplete:
    case RecordKind::kWaiting:
    case RecordKind::kVote:
    case RecordKind::kVoteHeard:
    case RecordKind::kResult:
    case RecordKind::kRevoke: return true;
    case RecordKind::kOpen:
    case RecordKind::kStepBegin:
    case RecordKind::kPeerLost:
    case RecordKind::kError:
    case RecordKind::kPlan:
    case RecordKind::kClose:
    case RecordKind::kSend:
    case RecordKind::kRecv:
    case RecordKind::kSendDone:
    case RecordKind::kRecvDone: return false;
  }
  return false;
}

// The turn of each entry, counting on past 65535.
std::vector<int64_t> UnwrapTurns(const std::vector<RecorderEntry>& entries) {
  std::vector<int64_t> turns;
  std::optional<int64_t> now;
  for (const RecorderEntry& e : entries) {
    if (HasTurn(e.kind)) {
      now = now ? *now + TurnsAhead(e.turn, static_cast<uint16_t>(*now)) : e.turn;
    }
    turns.push_back(now.value_or(0));
  }
  // What comes before the first that tells.
  const auto first = std::find_if(entries.begin(), entries.end(),
                                  [](const RecorderEntry& e) { return HasTurn(e.kind); });
  if (first != entries.end()) std::fill_n(turns.begin(), first - entries.begin(), first->turn);
  return turns;
}

// Which rank's 65536 turns are which: no rank is more than a turn from another.
void AlignTurns(std::vector<std::vector<int64_t>>* turns_of_ranks) {
  std::optional<int64_t> reference;
  for (std::vector<int64_t>& turns : *turns_of_ranks) {
    if (turns.empty()) continue;
    if (!reference) reference = turns.back();
    const int64_t ahead = turns.back() - *reference;
    const int64_t near =
        TurnsAhead(static_cast<uint16_t>(turns.back()), static_cast<uint16_t>(*reference));
    for (int64_t& turn : turns) turn += near - ahead;
  }
  static_assert(kTurns == int64_t{UINT16_MAX} + 1);
}

// Kinds whose `op_seq` is that of an operation of their turn.
bool HasOperation(RecordKind kind) {
  return kind == RecordKind::kSubmit || kind == RecordKind::kAdmit ||
         kind == RecordKind::kSliceDone || kind == RecordKind::kComplete;
}

// Numbers of operations, counting on past 2^32: in each turn near the largest of any rank, so that
// those after a wrap are behind those before it, and a turn without one keeps its numbers.
class OpNumbers {
 public:
  void See(const RecorderEntry& e, int64_t turn) {
    if (!HasOperation(e.kind)) return;
    uint32_t& largest = largest_[turn];
    largest = std::max(largest, e.op_seq);
  }
  int64_t Unwrap(int64_t turn, uint32_t number) const {
    const auto largest = largest_.find(turn);
    const int64_t near = largest == largest_.end() ? 0 : largest->second;
    return near + static_cast<int32_t>(number - static_cast<uint32_t>(near));
  }

 private:
  std::map<int64_t, uint32_t> largest_;  // by turn
};

// Adds one rank's entries to the job.
class Merger {
 public:
  // `numbers` has seen all entries of all ranks, and outlives this.
  Merger(JobRecord* job, const OpNumbers& numbers, int rank)
      : job_(*job), numbers_(numbers), rank_(rank), record_(job->ranks[rank]) {}

  void Add(const RecorderEntry& e, int64_t turn) {
    if (HasTurn(e.kind)) job_.last_turn = std::max(job_.last_turn, turn);
    const Report report = {rank_, record_.log.WallNs(e.time_ns), turn, e};
    switch (e.kind) {
      case RecordKind::kSubmit: Submit(e, turn); break;
      case RecordKind::kAdmit:
      case RecordKind::kSliceDone: Op(e, turn); break;
      case RecordKind::kComplete: Complete(e, turn); break;
      case RecordKind::kStepEnd:
        record_.open_step.reset();
        record_.ended[turn] = Count(e, turn);
        AtLeast(turn, Count(e, turn));
        break;
      case RecordKind::kVote:
        job_.votes[turn][rank_] = e;  // its own word, where its file has one, counts most
        AtLeast(turn, Count(e, turn));
        break;
      case RecordKind::kVoteHeard: HearVote(e, turn); break;
      case RecordKind::kResult: Result(report); break;
      case RecordKind::kRevoke: job_.revokes.push_back(report); break;
      case RecordKind::kPeerLost: job_.losses.push_back(report); break;
      case RecordKind::kError: Error(report); break;
      case RecordKind::kClose: record_.closed = true; break;
      case RecordKind::kStepBegin: record_.open_step = e.step; break;
      case RecordKind::kOpen:
      case RecordKind::kPlan:
      case RecordKind::kWaiting:
      // Beside the operations, of which alone it is told who was late.
      case RecordKind::kSend:
      case RecordKind::kRecv:
      case RecordKind::kSendDone:
      case RecordKind::kRecvDone: break;
    }
    if (e.kind == RecordKind::kWaiting) {
      record_.waiting = e;
    } else if (e.kind == RecordKind::kSliceDone || e.kind == RecordKind::kComplete) {
      record_.waiting.reset();
    }
  }

 private:
  void AtLeast(int64_t turn, int64_t operations) {
    int64_t& known = record_.submitted[turn];
    known = std::max(known, operations);
  }
  OpPosition At(const RecorderEntry& e, int64_t turn) const {
    return {turn, numbers_.Unwrap(turn, e.op_seq)};
  }
  // Of operations submitted, where an entry tells it: the number of the next one.
  int64_t Count(const RecorderEntry& e, int64_t turn) const {
    return numbers_.Unwrap(turn, OperationCount(e));
  }
  OpOnRank& Op(const RecorderEntry& e, int64_t turn) {
    const OpPosition at = At(e, turn);
    record_.next = std::max(record_.next, {turn, at.op_seq + 1});
    AtLeast(turn, at.op_seq + 1);
    return job_.ops[at][rank_];
  }
  void Submit(const RecorderEntry& e, int64_t turn) {
    OpOnRank& op = Op(e, turn);
    op.signature = e.signature;
    op.signed_here = true;
    op.bytes = e.bytes;
    op.dtype = e.dtype;
    op.text = EntryText(e);
  }
  void Complete(const RecorderEntry& e, int64_t turn) {
    // What was refused at once fails without having been submitted.
    const auto op = job_.ops.find(At(e, turn));
    const bool known = op != job_.ops.end() && op->second.count(rank_) > 0;
    if (!known && e.status != gwSuccess) return;
    OpOnRank& on_rank = Op(e, turn);
    on_rank.complete = true;
    on_rank.status = e.status;
  }
  void HearVote(const RecorderEntry& e, int64_t turn) {
    if (e.peer >= 0 && e.peer < job_.world_size) job_.votes[turn].emplace(e.peer, e);
  }
  void Error(const Report& report) {
    if (!record_.error) record_.error = report.entry;
    if (report.entry.status == gwPeerLost) job_.losses.push_back(report);
  }
  void Result(const Report& report) {
    record_.next = std::max(record_.next, {report.turn + 1, 0});
    job_.results.push_back(report);
    if (report.entry.value == 0) {
      job_.last_committed = std::max(job_.last_committed, report.turn);
    }
  }

  JobRecord& job_;
  const OpNumbers& numbers_;
  const int rank_;
  RankRecord& record_;
};

// Ranks that have forgotten an operation's name learn it from the others.
void ShareTexts(std::map<OpPosition, OpRecord>* ops) {
  for (auto& [at, op] : *ops) {
    const auto named = std::find_if(op.begin(), op.end(),
                                    [](const auto& entry) { return !entry.second.text.empty(); });
    if (named == op.end()) continue;
    const std::string text = named->second.text;
    for (auto& [rank, on_rank] : op) {
      if (on_rank.text.empty()) on_rank.text = text;
    }
  }
}

void SortByTime(std::vector<Report>* reports) {
  std::stable_sort(reports->begin(), reports->end(),
                   [](const Report& a, const Report& b) { return a.wall_ns < b.wall_ns; });
}

}  // namespace

std::optional<bool> JobRecord::Submitted(int rank, OpPosition at) const {
  const RankRecord& record = ranks[rank];
  if (const auto op = ops.find(at); op != ops.end() && op->second.count(rank) > 0) return true;
  if (!record.present || record.log.entries.empty()) return std::nullopt;
  const auto ended = record.ended.find(at.turn);
  if (ended != record.ended.end()) return at.op_seq < ended->second;
  // A no comes before the end of the step; its count is that of the moment.
  if (const auto votes_of_turn = votes.find(at.turn); votes_of_turn != votes.end()) {
    const auto vote = votes_of_turn->second.find(rank);
    const bool own = vote != votes_of_turn->second.end() && vote->second.kind == RecordKind::kVote;
    if (own) return at.op_seq < record.submitted.at(at.turn);
  }
  if (record.next <= at) return false;
  return std::nullopt;
}

JobRecord MergeLogs(std::vector<RecorderLog> logs) {
  JobRecord job;
  if (logs.empty()) return job;
  job.job = logs[0].header.job;
  for (const RecorderLog& log : logs)
    job.world_size = std::max(job.world_size, log.header.world_size);
  job.ranks.resize(job.world_size);
  for (RecorderLog& log : logs) {
    RankRecord& record = job.ranks[log.header.rank];
    if (record.present && record.log.header.start_wall_ns > log.header.start_wall_ns) continue;
    record.present = true;
    record.log = std::move(log);
  }
  std::vector<std::vector<int64_t>> turns;
  for (const RankRecord& record : job.ranks) turns.push_back(UnwrapTurns(record.log.entries));
  AlignTurns(&turns);
  OpNumbers numbers;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const std::vector<RecorderEntry>& entries = job.ranks[rank].log.entries;
    for (size_t i = 0; i < entries.size(); ++i) numbers.See(entries[i], turns[rank][i]);
  }
  for (int rank = 0; rank < job.world_size; ++rank) {
    RankRecord& record = job.ranks[rank];
    if (!turns[rank].empty()) record.next = {turns[rank].front(), 0};
    Merger merger(&job, numbers, rank);
    for (size_t i = 0; i < record.log.entries.size(); ++i) {
      merger.Add(record.log.entries[i], turns[rank][i]);
    }
    if (record.last() != nullptr) record.end_wall_ns = record.log.WallNs(record.last()->time_ns);
    job.end_wall_ns = std::max(job.end_wall_ns, record.end_wall_ns);
  }
  ShareTexts(&job.ops);
  for (auto* reports : {&job.losses, &job.revokes, &job.results}) SortByTime(reports);
  return job;
}

}  // namespace gradwire
