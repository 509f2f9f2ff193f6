#include "runtime/recorder/job_record.h"

#include <algorithm>
#include <utility>

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
      now = now ? *now + static_cast<int16_t>(static_cast<uint16_t>(e.turn - *now)) : e.turn;
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
    const int64_t near = static_cast<int16_t>(static_cast<uint16_t>(ahead));
    for (int64_t& turn : turns) turn += near - ahead;
  }
  static_assert(kTurns == int64_t{UINT16_MAX} + 1);
}

// Adds one rank's entries to the job.
class Merger {
 public:
  Merger(JobRecord* job, int rank) : job_(*job), rank_(rank), record_(job->ranks[rank]) {}

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
        record_.ended[turn] = e.value;
        AtLeast(turn, e.value);
        break;
      case RecordKind::kVote:
        job_.votes[turn][rank_] = e;  // its own word, where its file has one, counts most
        AtLeast(turn, e.value);
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
  OpOnRank& Op(const RecorderEntry& e, int64_t turn) {
    record_.next = std::max(record_.next, {turn, e.op_seq + 1});
    AtLeast(turn, int64_t{e.op_seq} + 1);
    return job_.ops[{turn, e.op_seq}][rank_];
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
    const auto op = job_.ops.find({turn, e.op_seq});
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
  if (ended != record.ended.end()) return static_cast<int64_t>(at.op_seq) < ended->second;
  // A no comes before the end of the step; its count is that of the moment.
  if (const auto votes_of_turn = votes.find(at.turn); votes_of_turn != votes.end()) {
    const auto vote = votes_of_turn->second.find(rank);
    const bool own = vote != votes_of_turn->second.end() && vote->second.kind == RecordKind::kVote;
    if (own) return static_cast<int64_t>(at.op_seq) < vote->second.value;
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
  for (int rank = 0; rank < job.world_size; ++rank) {
    RankRecord& record = job.ranks[rank];
    if (!turns[rank].empty()) record.next = {turns[rank].front(), 0};
    Merger merger(&job, rank);
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
