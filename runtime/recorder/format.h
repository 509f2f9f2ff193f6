// The flight recorder's file: one page of header, then a ring of entries. Little endian, written in
// place, so that it is complete at any moment, also when the process is killed in the middle of an
// entry. docs/reliability.md, section Flight recorder, tells what is recorded when.
#ifndef GRADWIRE_RUNTIME_RECORDER_FORMAT_H_
#define GRADWIRE_RUNTIME_RECORDER_FORMAT_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace gradwire {

static_assert(std::endian::native == std::endian::little, "the file is little endian");

inline constexpr uint64_t kRecorderMagic = 0x3143455244574757;  // "WGWDREC1"
inline constexpr uint32_t kRecorderVersion = 1;
inline constexpr int64_t kRecorderHeaderBytes = 4096;
inline constexpr int64_t kRecorderEntries = 4096;
inline constexpr int64_t kMaxRecorderEntries = 1 << 20;
inline constexpr int kMaxRecorderRanks = 0xFFFE;
inline constexpr int kRecorderTextBytes = 52;
inline constexpr char kRecorderCut = '~';           // stands where text was left out
inline constexpr int32_t kMaxRecordedStatus = 127;  // what gwResult_t has room for

// What happened. A new kind goes to the end and into kRecordKindNames.
enum class RecordKind : uint8_t {
  kOpen,       // the recorder was opened; first entry of a file
  kStepBegin,  // step
  kStepEnd,    // the caller ended its step; step; value: operations submitted in it
  kSubmit,     // signature, bytes, dtype, text: operation and tensor
  kAdmit,      // a slice entered the window
  kSliceDone,
  kComplete,   // an operation ended; status
  kWaiting,    // nothing moved for a while; peer: who is awaited; progress; of the oldest slice
  kVote,       // this rank's; value: operations submitted; status: why it is a no
  kResult,     // of a vote: step; value: outcome (0 commit, 1 skip, 2 abort); status
  kRevoke,     // the turn is revoked; status; value: the rank that found the reason
  kPeerLost,   // peer; text: how it was noticed
  kError,      // the communicator is unusable; status
  kPlan,       // another plan was ordered; value: its epoch
  kClose,      // the communicator ended as it should; last entry of a file
  kVoteHeard,  // another rank's; peer: whose; value and status as for kVote
  kSend,       // a message was called for; bytes, dtype; value: the other rank
  kRecv,       // likewise
  kSendDone,   // it ended; status; bytes, dtype and value likewise
  kRecvDone,   // likewise
};
// A status is its code, and its message in `text`; `peer` is the culprit that the status names.
// `turn` counts where an operation, a vote or a step's end is spoken of.

inline constexpr std::string_view kRecordKindNames[] = {
    "open",    "step begin", "step end", "submit",  "admit",     "slice done", "complete",
    "waiting", "vote",       "result",   "revoke",  "peer lost", "error",      "plan",
    "close",   "vote heard", "send",     "receive", "sent",      "received"};
inline constexpr int kRecordKinds = static_cast<int>(std::size(kRecordKindNames));

constexpr std::string_view Name(RecordKind kind) {
  return kRecordKindNames[static_cast<size_t>(kind)];
}

// A count of steps as an entry has it: 65535 stands for more.
constexpr uint16_t SaturatedCount(int64_t count) {
  return static_cast<uint16_t>(std::min<int64_t>(count, UINT16_MAX));
}

// Steps of the slice's run done and due, see PeerProgress; SaturatedCount.
struct RecordProgress {
  uint16_t sends_done = 0, sends = 0;
  uint16_t recvs_done = 0, recvs = 0;
  friend bool operator==(const RecordProgress&, const RecordProgress&) = default;
};

// An entry as it lies in the file. -1 and 0xFF mean "does not apply".
struct RecorderEntry {
  uint64_t seq = 0;  // from 1; written last. 0: empty, or its writing was cut off
  int64_t time_ns = 0;
  uint64_t signature = 0;
  int64_t bytes = 0;
  uint64_t step = 0;
  uint32_t op_seq = 0;
  uint32_t slice = 0;
  uint16_t turn = 0;
  RecordKind kind = RecordKind::kOpen;
  uint8_t dtype = 0xFF;
  int32_t peer = -1;
  int32_t status = 0;  // gwResult_t
  int32_t value = 0;   // by kind
  RecordProgress progress;
  char text[kRecorderTextBytes] = {};  // closed by zero only where there is room
  uint32_t crc = 0;                    // CRC32C of the bytes before
};
static_assert(sizeof(RecorderEntry) == 128);

// The first bytes of the file; the rest of the page is zero.
struct RecorderHeader {
  uint64_t magic = kRecorderMagic;
  uint32_t version = kRecorderVersion;
  uint32_t header_bytes = kRecorderHeaderBytes;
  uint32_t entry_bytes = sizeof(RecorderEntry);
  uint32_t capacity = kRecorderEntries;  // entries of the ring
  uint64_t job = 0;
  int32_t rank = 0;
  int32_t world_size = 0;
  uint32_t epoch = 0;
  uint32_t pid = 0;
  int64_t start_wall_ns = 0;  // since 1970, at the same moment as
  int64_t start_time_ns = 0;  // on the clock of the entries
  uint32_t library_version = 0;
  char host[88] = {};
  uint32_t crc = 0;  // CRC32C of the bytes before
};
static_assert(sizeof(RecorderHeader) == 160);

// Text that fills its field needs no closing zero.
template <typename Array>
std::string_view TextOf(const Array& text) {
  const std::string_view whole(text, sizeof text);
  return whole.substr(0, whole.find('\0'));
}

// "gradwire-00000000000004d2-3.rec"
std::string RecorderFileName(uint64_t job, int rank);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_FORMAT_H_
