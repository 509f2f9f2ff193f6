// Control messages: what ranks say to each other beside the data path. A head of 256 bytes, then a
// body of at most 64 KiB, both under a CRC32C. docs/wire_format.md is the specification.
//
// The head of HELLO and PROOF never changes between versions of gradwire, so that two versions can
// always tell each other that they differ.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_MESSAGE_H_
#define GRADWIRE_TRANSPORTS_CONTROL_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include "base/status.h"
#include "base/view.h"
#include "base/wrapping.h"

namespace gradwire {

inline constexpr uint32_t kControlMagic = 0x31434757;  // "WGC1"
inline constexpr uint8_t kControlVersion = 1;
inline constexpr int kControlHeadBytes = 256;
inline constexpr int kControlFieldBytes = 208;
inline constexpr int64_t kMaxControlBodyBytes = 64 * 1024;
inline constexpr uint16_t kAllRanks = 0xFFFF;  // dst: everybody but the sender
inline constexpr int kMaxControlRanks = 0xFFFE;
inline constexpr uint32_t kNoOpSeq = 0xFFFFFFFF;  // no operation in particular

// Of two operations in doubt the first; kNoOpSeq is behind all. They are counted from 0 in every
// turn, and the numbers wrap: outside of steps a turn has no end.
inline uint32_t FirstInDoubt(uint32_t a, uint32_t b) {
  if (a == kNoOpSeq || b == kNoOpSeq) return a == kNoOpSeq ? b : a;
  return IsBefore(b, a) ? b : a;
}

using ControlHead = std::array<std::byte, kControlHeadBytes>;

// The fields of each type as they lie in the head. No padding; what a reader does not know is zero.

// Both directions, before any proof.
struct HelloFields {
  uint32_t library_version = 0;  // GW_VERSION_CODE
  uint32_t world_size = 0;
  uint32_t rank = 0;  // the sender's own
  uint32_t reserved = 0;
  std::array<uint8_t, 32> nonce = {};
  friend bool operator==(const HelloFields&, const HelloFields&) = default;
};

// HMAC-SHA256 over both hellos; see bootstrap/handshake.h.
struct ProofFields {
  std::array<uint8_t, 32> tag = {};
  uint32_t wait_ms = 0;  // rank 0 only: how long it still waits for missing ranks
  uint32_t reserved = 0;
  friend bool operator==(const ProofFields&, const ProofFields&) = default;
};

// A part of a longer text: towards rank 0 the sender's blob, from rank 0 the encoded roster.
struct RosterFields {
  uint32_t offset_bytes = 0;  // of this body in the whole
  uint32_t total_bytes = 0;
  friend bool operator==(const RosterFields&, const RosterFields&) = default;
};

struct ReadyFields {
  uint64_t reserved = 0;
  friend bool operator==(const ReadyFields&, const ReadyFields&) = default;
};

// How far the sender is; its turn is in the head.
struct HeartbeatFields {
  uint64_t slices_done = 0;  // in this epoch
  uint32_t submitted = 0;    // operations in this turn
  uint32_t op_seq = 0;       // of the oldest operation that is not complete
  uint64_t signature = 0;    // of that one, what ranks must agree on; 0: nothing is told of it
  uint32_t looks = 0;        // of rank 0: grows while its engine runs and others may wait for it
  uint8_t is_through = 0;    // 0 or 1: the sender submits nothing more, and leaves in a moment
  std::array<uint8_t, 3> reserved = {};
  friend bool operator==(const HeartbeatFields&, const HeartbeatFields&) = default;
};

enum class RevokeScope : uint8_t { kStep = 0, kEpoch = 1 };

// Body: the reason, EncodeStatus.
struct RevokeFields {
  uint32_t op_seq = 0;
  uint16_t culprit = 0;  // kAllRanks: nobody in particular
  RevokeScope scope = RevokeScope::kStep;
  uint8_t reserved = 0;
  uint64_t step = 0;
  friend bool operator==(const RevokeFields&, const RevokeFields&) = default;
};

// Flags of VoteFields::nonfinite: where a rank has met a NaN or an infinity.
inline constexpr uint8_t kInResult = 1;    // of an operation of the step
inline constexpr uint8_t kInGradient = 2;  // that it has brought itself, where anybody looks at it

// Body, opaque here: of a vote against, the operation in doubt; of one in favour, the table of
// tensors where it is not the one told last, then what the rank has observed, or where a result was
// not finite, in which tensor. Both flags are for policies that end such a step.
struct VoteFields {
  uint64_t step = 0;
  uint64_t digest = 0;        // of replicated state
  uint64_t table_digest = 0;  // of the registered tensors
  uint32_t submitted = 0;     // operations in this turn
  uint32_t plan_epoch = 0;
  uint8_t ok = 0;              // 0 or 1
  uint8_t nonfinite = 0;       // flags
  uint8_t no_wait = 0;         // 0 or 1: StepEnd without an outcome pointer
  uint8_t unfinished = 0;      // 0 or 1: a codec's work outside steps that others may have finished
  uint32_t table_bytes = 0;    // of the body, the table's part
  uint32_t op_seq = kNoOpSeq;  // of a vote against: the operation in doubt
  uint32_t draws = 0;          // behind the last number by which work outside steps has drawn
  friend bool operator==(const VoteFields&, const VoteFields&) = default;
};

enum class StepOutcome : uint8_t { kCommit = 0, kSkip = 1, kAbort = 2 };

// Body: the plan where there is a new one, or for kAbort the reason (EncodeStatus).
struct ResultFields {
  uint64_t step = 0;
  uint32_t plan_epoch = 0;
  uint16_t culprit = 0;  // kAllRanks: nobody in particular
  StepOutcome outcome = StepOutcome::kCommit;
  uint8_t new_plan = 0;     // 0 or 1
  uint8_t begins_anew = 0;  // 0 or 1; of kAbort only: see TurnResult
  std::array<uint8_t, 3> reserved = {};
  uint32_t draws = 0;  // where it begins anew: the largest of the votes'
  friend bool operator==(const ResultFields&, const ResultFields&) = default;
};

// The sender leaves. code 0: it is finished; otherwise it refuses, and the body says why
// (EncodeStatus).
struct ByeFields {
  int32_t code = 0;
  uint32_t reserved = 0;
  friend bool operator==(const ByeFields&, const ByeFields&) = default;
};

// In the order of the type byte, which starts at 1.
using ControlFields =
    std::variant<HelloFields, ProofFields, RosterFields, ReadyFields, HeartbeatFields, RevokeFields,
                 VoteFields, ResultFields, ByeFields>;

struct ControlMessage {
  uint16_t src = 0;
  uint16_t dst = 0;  // kAllRanks: everybody but src
  uint16_t turn = 0;
  uint32_t epoch = 0;
  uint64_t job = 0;
  ControlFields fields;
  std::string body;  // at most kMaxControlBodyBytes

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&fields);
  }
  const char* TypeName() const;  // "VOTE", ...
  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

// Head, then body: what goes on the wire. The body's size is the caller's to keep within the bound.
std::string EncodeControl(const ControlMessage& message);

// A head that passed all checks; its body still has to come.
struct ParsedHead {
  ControlMessage message;  // without body
  uint32_t body_bytes = 0;
  uint32_t body_crc = 0;
};

// Any 256 bytes give a head or gwDataCorrupt; nothing is allocated but the error.
StatusOr<ParsedHead> ParseControlHead(const ControlHead& head);

// A Status as text for a body, at most 4 KiB (longer parts are cut), and back. Any bytes decode to
// a Status that is an error, or to gwDataCorrupt.
std::string EncodeStatus(const Status& status);
Status DecodeStatus(const std::string& body);

// Builds messages out of a stream of bytes, whatever its split points. Until AllowBodies the reader
// accepts heads only and allocates nothing: that is the state for strangers.
class MessageReader {
 public:
  void AllowBodies() { bodies_allowed_ = true; }

  // Takes bytes from the front of `*bytes` up to the end of one message. True: `*message` is
  // complete, and the rest may hold more. False: everything was taken, more is needed. After an
  // error the stream is unusable; the same error comes again.
  StatusOr<bool> Next(ConstBytes* bytes, ControlMessage* message);

  // In the middle of a message: end of file here is a cut, not an end.
  bool partial() const { return head_filled_ > 0; }

 private:
  Status TakeHead(ConstBytes* bytes);

  ControlHead head_;
  int head_filled_ = 0;
  ParsedHead parsed_;
  bool bodies_allowed_ = false;
  Status error_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_MESSAGE_H_
