#include "runtime/recorder/entry_text.h"

#include <fmt/format.h>

#include <ctime>

#include "base/status.h"

namespace gradwire {
namespace {

std::string SliceText(const RecorderEntry& entry) {
  return fmt::format("slice {} of {}", entry.slice, OperationText(entry.op_seq, EntryText(entry)));
}

// "timeout: no progress for 600 s (rank 3)".
std::string StatusText(const RecorderEntry& entry) {
  std::string text = ResultText(static_cast<gwResult_t>(entry.status));
  if (entry.text[0] != '\0') text += ": " + EntryText(entry);
  if (entry.peer >= 0) text += fmt::format(" (rank {})", entry.peer);
  return text;
}

std::string WaitingText(const RecorderEntry& entry) {
  const RecordProgress& p = entry.progress;
  const std::string awaited = entry.peer < 0 ? "" : fmt::format(" for rank {}", entry.peer);
  return fmt::format("waiting{} in {}: sent {} of {}, received {} of {}", awaited, SliceText(entry),
                     p.sends_done, p.sends, p.recvs_done, p.recvs);
}

// The peer of a vote that was heard is its voter, so it is not the culprit.
std::string VoteText(RecorderEntry entry) {
  if (entry.kind == RecordKind::kVoteHeard) entry.peer = -1;
  if (entry.status == gwSuccess)
    return fmt::format("voted yes after {} operations", OperationCount(entry));
  return "voted no: " + StatusText(entry);
}

std::string OutcomeText(const RecorderEntry& entry) {
  const char* const outcome = entry.value == 0   ? "committed"
                              : entry.value == 1 ? "skipped"
                                                 : "aborted";
  const std::string why = entry.status == gwSuccess ? "" : ": " + StatusText(entry);
  return fmt::format("step {} {}{}", entry.step, outcome, why);
}

std::string CompleteText(const RecorderEntry& entry) {
  const std::string operation = fmt::format("operation #{}", entry.op_seq);
  return entry.status == gwSuccess ? operation + " complete"
                                   : operation + " failed: " + StatusText(entry);
}

std::string MessageText(const char* what, const RecorderEntry& entry) {
  return fmt::format("{} rank {} ({} bytes)", what, entry.value, entry.bytes);
}

std::string MessageDoneText(const char* what, const RecorderEntry& entry) {
  const std::string message = MessageText(what, entry);
  return entry.status == gwSuccess ? message + " complete"
                                   : message + " failed: " + StatusText(entry);
}

}  // namespace

std::string EntryText(const RecorderEntry& entry) {
  std::string text(TextOf(entry.text));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

uint32_t OperationCount(const RecorderEntry& entry) { return static_cast<uint32_t>(entry.value); }

int64_t ValueOf(const RecorderEntry& entry) {
  const RecordKind kind = entry.kind;
  const bool counts =
      kind == RecordKind::kStepEnd || kind == RecordKind::kVote || kind == RecordKind::kVoteHeard;
  return counts ? int64_t{OperationCount(entry)} : int64_t{entry.value};
}

std::string OperationText(uint32_t op_seq, std::string_view text) {
  return text.empty() ? fmt::format("operation #{}", op_seq)
                      : fmt::format("operation #{} ({})", op_seq, text);
}

std::string DescribeEntry(const RecorderEntry& entry) {
  switch (entry.kind) {
    case RecordKind::kOpen: return "recorder opened";
    case RecordKind::kStepBegin: return fmt::format("step {} begun", entry.step);
    case RecordKind::kStepEnd:
      return fmt::format("step {} ended by the caller after {} operations", entry.step,
                         OperationCount(entry));
    case RecordKind::kSubmit: return OperationText(entry.op_seq, EntryText(entry)) + " submitted";
    case RecordKind::kAdmit: return SliceText(entry) + " admitted";
    case RecordKind::kSliceDone: return SliceText(entry) + " done";
    case RecordKind::kComplete: return CompleteText(entry);
    case RecordKind::kWaiting: return WaitingText(entry);
    case RecordKind::kVote: return VoteText(entry);
    case RecordKind::kResult: return OutcomeText(entry);
    case RecordKind::kRevoke:
      return fmt::format("step revoked by rank {}: {}", entry.value, StatusText(entry));
    case RecordKind::kPeerLost:
      return fmt::format("rank {} lost: {}", entry.peer, EntryText(entry));
    case RecordKind::kError: return "communicator failed: " + StatusText(entry);
    case RecordKind::kPlan: return fmt::format("plan {} ordered", entry.value);
    case RecordKind::kClose: return "closed";
    case RecordKind::kVoteHeard: return fmt::format("rank {} {}", entry.peer, VoteText(entry));
    case RecordKind::kSend: return MessageText("send to", entry) + " called";
    case RecordKind::kRecv: return MessageText("receive from", entry) + " called";
    case RecordKind::kSendDone: return MessageDoneText("send to", entry);
    case RecordKind::kRecvDone: return MessageDoneText("receive from", entry);
  }
  return "unknown";
}

std::string UtcText(int64_t wall_ns) {
  const int64_t ms = wall_ns / 1'000'000;
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  return fmt::format("{}.{:03}", text, (ms % 1000 + 1000) % 1000);
}

}  // namespace gradwire
