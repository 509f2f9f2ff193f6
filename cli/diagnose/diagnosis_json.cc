#include <fmt/format.h>

#include "base/dtype.h"
#include "base/json_value.h"
#include "base/status.h"
#include "cli/diagnose/diagnosis_report.h"
#include "runtime/recorder/entry_text.h"

namespace gradwire {
namespace {

using Json = JsonValue;

const char* KindName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kDisagree: return "disagree";
    case FindingKind::kLost: return "lost";
    case FindingKind::kFailed: return "failed";
    case FindingKind::kNeverSubmitted: return "never_submitted";
    case FindingKind::kAwaited: return "awaited";
    case FindingKind::kNoFile: return "no_file";
    case FindingKind::kNote: return "note";
  }
  return "note";
}

Json EntryJson(const RecorderLog& log, const RecorderEntry& e) {
  const auto dtype = DTypeFromInt(e.dtype);
  const RecordProgress& p = e.progress;
  Json json = {{"seq", e.seq},
               {"wall_ns", log.WallNs(e.time_ns)},
               {"kind", Name(e.kind)},
               {"turn", e.turn},
               {"op_seq", e.op_seq},
               {"slice", e.slice},
               {"step", e.step},
               {"bytes", e.bytes},
               {"signature", fmt::format("{:016x}", e.signature)},
               {"value", ValueOf(e)},
               {"status", e.status},
               {"status_text", ResultText(static_cast<gwResult_t>(e.status))},
               {"progress", {p.sends_done, p.sends, p.recvs_done, p.recvs}},
               {"text", EntryText(e)},
               {"description", DescribeEntry(e)}};
  json["peer"] = e.peer < 0 ? Json() : Json(e.peer);
  json["dtype"] = dtype ? Json(Name(*dtype)) : Json();
  return json;
}

Json RankJson(const JobRecord& job, int rank, const std::optional<LastOperation>& last) {
  const RankRecord& record = job.ranks[rank];
  Json json = {{"rank", rank}, {"present", record.present}};
  if (!record.present) return json;
  const RecorderLog& log = record.log;
  json.update({{"path", log.path},
               {"host", TextOf(log.header.host)},
               {"pid", log.header.pid},
               {"epoch", log.header.epoch},
               {"events", log.overwritten + log.entries.size()},
               {"overwritten", log.overwritten},
               {"damaged", log.damaged},
               {"closed", record.closed}});
  json["last_event"] = record.last() == nullptr ? Json() : EntryJson(log, *record.last());
  json["waiting"] = record.waiting ? EntryJson(log, *record.waiting) : Json();
  json["last_operation"] = Json();
  if (last) {
    json["last_operation"] = {{"op_seq", last->at.number()},
                              {"text", last->op.text},
                              {"complete", last->op.complete},
                              {"status", last->op.status}};
  }
  return json;
}

Json OperationsJson(const JobRecord& job) {
  Json json = Json::array();
  for (const OpState& op : UnfinishedOps(job)) {
    json.push_back({{"op_seq", op.at.number()},
                    {"text", op.text},
                    {"done", op.done},
                    {"open", op.open},
                    {"never_submitted", op.missing},
                    {"unknown", op.unknown},
                    {"differs", op.differs}});
  }
  return json;
}

Json VotesJson(const JobRecord& job) {
  Json json = Json::array();
  if (job.votes.empty()) return json;
  for (const auto& [rank, e] : job.votes.rbegin()->second) {
    json.push_back({{"rank", rank},
                    {"yes", e.status == gwSuccess},
                    {"operations", OperationCount(e)},
                    {"status", e.status},
                    {"text", EntryText(e)}});
  }
  return json;
}

}  // namespace

std::string DiagnosisJson(const JobRecord& job, const Diagnosis& diagnosis, int64_t last) {
  Json json = {{"schema_version", 1},
               {"job", fmt::format("{:016x}", job.job)},
               {"world_size", job.world_size},
               {"end_wall_ns", job.end_wall_ns},
               {"verdict", diagnosis.verdict},
               {"culprits", diagnosis.culprits},
               {"findings", Json::array()},
               {"ranks", Json::array()},
               {"operations", OperationsJson(job)},
               {"votes", VotesJson(job)},
               {"events", Json::array()}};
  for (const Finding& finding : diagnosis.findings) {
    json["findings"].push_back(
        {{"kind", KindName(finding.kind)}, {"culprits", finding.culprits}, {"text", finding.text}});
  }
  const auto operations = LastOperations(job);
  for (int rank = 0; rank < job.world_size; ++rank) {
    json["ranks"].push_back(RankJson(job, rank, operations[rank]));
  }
  for (const TimedEntry& timed : LastEntries(job, last)) {
    Json entry = {{"rank", timed.rank}};
    entry.update(EntryJson(job.ranks[timed.rank].log, *timed.entry));
    json["events"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

}  // namespace gradwire
