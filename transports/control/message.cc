#include "transports/control/message.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/byte_stream.h"
#include "base/crc.h"
#include "base/error_code.h"

namespace gradwire {
namespace {

// Everything of the head that is not the type's own.
struct WireHead {
  uint32_t magic;
  uint8_t version;
  uint8_t type;
  uint16_t head_bytes;
  uint16_t src;
  uint16_t dst;
  uint16_t turn;
  uint16_t reserved0;
  uint32_t epoch;
  uint32_t body_bytes;
  uint64_t job;
  std::array<std::byte, kControlFieldBytes> fields;
  uint64_t reserved1;
  uint32_t body_crc;
  uint32_t head_crc;  // of the 252 bytes before
};
static_assert(sizeof(WireHead) == kControlHeadBytes);
static_assert(std::has_unique_object_representations_v<WireHead>);

constexpr int kCrcBytes = kControlHeadBytes - 4;
constexpr const char* kTypeNames[] = {"HELLO",  "PROOF", "ROSTER", "READY", "HEARTBEAT",
                                      "REVOKE", "VOTE",  "RESULT", "BYE"};
static_assert(std::size(kTypeNames) == std::variant_size_v<ControlFields>);

Status Corrupt(std::string what) {
  return Status(gwDataCorrupt, "control message: " + std::move(what));
}

bool IsBit(uint8_t v) { return v <= 1; }

bool InRange(const RosterFields& f) { return f.offset_bytes <= f.total_bytes; }
bool InRange(const RevokeFields& f) { return f.scope <= RevokeScope::kEpoch; }
bool InRange(const VoteFields& f) {
  const bool in_doubt = f.op_seq != kNoOpSeq;
  return IsBit(f.ok) && f.nonfinite <= (kInResult | kInGradient) && IsBit(f.no_wait) &&
         IsBit(f.unfinished) && !(f.ok == 1 && in_doubt);
}
bool InRange(const ResultFields& f) {
  return f.outcome <= StepOutcome::kAbort && IsBit(f.new_plan) && IsBit(f.begins_anew);
}
template <typename T>
bool InRange(const T&) {
  return true;
}

// The alternative number `type` - 1 of the variant, read from `bytes`.
template <size_t kIndex = 0>
bool ReadFields(uint8_t type, const std::byte* bytes, ControlFields* fields) {
  if constexpr (kIndex == std::variant_size_v<ControlFields>) {
    return false;
  } else {
    using Fields = std::variant_alternative_t<kIndex, ControlFields>;
    static_assert(sizeof(Fields) <= kControlFieldBytes);
    static_assert(std::has_unique_object_representations_v<Fields>, "padding would leak memory");
    if (type != kIndex + 1) return ReadFields<kIndex + 1>(type, bytes, fields);
    Fields value;
    std::memcpy(&value, bytes, sizeof(value));
    *fields = value;
    return InRange(value);
  }
}

}  // namespace

const char* ControlMessage::TypeName() const { return kTypeNames[fields.index()]; }

std::string EncodeControl(const ControlMessage& message) {
  WireHead head{};
  head.magic = kControlMagic;
  head.version = kControlVersion;
  head.type = static_cast<uint8_t>(message.fields.index() + 1);
  head.head_bytes = kControlHeadBytes;
  head.src = message.src;
  head.dst = message.dst;
  head.turn = message.turn;
  head.epoch = message.epoch;
  head.body_bytes = static_cast<uint32_t>(message.body.size());
  head.job = message.job;
  std::visit([&](const auto& f) { std::memcpy(head.fields.data(), &f, sizeof(f)); },
             message.fields);
  head.body_crc = Crc32c(message.body.data(), static_cast<int64_t>(message.body.size()));
  head.head_crc = Crc32c(&head, kCrcBytes);
  std::string out(reinterpret_cast<const char*>(&head), sizeof(head));
  return out += message.body;
}

StatusOr<ParsedHead> ParseControlHead(const ControlHead& bytes) {
  WireHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != kControlMagic) return Corrupt("not gradwire's magic number");
  if (head.version != kControlVersion) return Corrupt("unknown version of the message format");
  if (head.head_crc != Crc32c(bytes.data(), kCrcBytes)) return Corrupt("checksum of the head");
  if (head.head_bytes != kControlHeadBytes) return Corrupt("size of the head");
  if (head.body_bytes > kMaxControlBodyBytes) return Corrupt("body over 64 KiB");
  ParsedHead parsed;
  if (!ReadFields(head.type, head.fields.data(), &parsed.message.fields)) {
    return Corrupt("unknown type or a value out of range");
  }
  parsed.message.src = head.src;
  parsed.message.dst = head.dst;
  parsed.message.turn = head.turn;
  parsed.message.epoch = head.epoch;
  parsed.message.job = head.job;
  parsed.body_bytes = head.body_bytes;
  parsed.body_crc = head.body_crc;
  return parsed;
}

std::string EncodeStatus(const Status& status) {
  const ErrorDetail& d = status.detail();
  ByteWriter out;
  out.Put(static_cast<int32_t>(status.code()), int32_t{d.rank}, int32_t{d.peer},
          uint8_t{d.op_seq.has_value()}, uint64_t{d.op_seq.value_or(0)});
  out.PutText<uint16_t>(std::string_view(d.message).substr(0, 1024));
  for (const std::string* text : {&d.op, &d.tensor, &d.hint, &d.field, &d.expected, &d.actual}) {
    out.PutText<uint16_t>(std::string_view(*text).substr(0, 500));
  }
  return std::move(out).Take();
}

Status DecodeStatus(const std::string& body) {
  ByteReader in(body);
  const auto code = in.Get<int32_t>();
  ErrorDetail d;
  d.rank = in.Get<int32_t>();
  d.peer = in.Get<int32_t>();
  const bool has_op_seq = in.Get<uint8_t>() != 0;
  const auto op_seq = in.Get<uint64_t>();
  if (has_op_seq) d.op_seq = op_seq;
  d.message = in.GetText<uint16_t>();
  for (std::string* text : {&d.op, &d.tensor, &d.hint, &d.field, &d.expected, &d.actual}) {
    *text = in.GetText<uint16_t>();
  }
  if (!in.ok() || !IsErrorCode(code)) return Corrupt("unreadable reason");
  return Status(static_cast<gwResult_t>(code), std::move(d));
}

Status MessageReader::TakeHead(ConstBytes* bytes) {
  const int64_t take = std::min<int64_t>(bytes->size, kControlHeadBytes - head_filled_);
  if (take > 0) std::memcpy(head_.data() + head_filled_, bytes->data, static_cast<size_t>(take));
  *bytes = bytes->Sub(take, bytes->size - take);
  head_filled_ += static_cast<int>(take);
  if (take == 0 || head_filled_ < kControlHeadBytes) return {};
  StatusOr<ParsedHead> parsed = ParseControlHead(head_);
  if (!parsed.ok()) return parsed.status();
  if (parsed->body_bytes > 0 && !bodies_allowed_) return Corrupt("a body before any proof");
  parsed_ = std::move(*parsed);
  if (parsed_.body_bytes > 0) parsed_.message.body.reserve(parsed_.body_bytes);
  return {};
}

StatusOr<bool> MessageReader::Next(ConstBytes* bytes, ControlMessage* message) {
  if (!error_.ok()) return error_;
  if (head_filled_ < kControlHeadBytes) error_ = TakeHead(bytes);
  if (!error_.ok()) return error_;
  if (head_filled_ < kControlHeadBytes) return false;
  std::string& body = parsed_.message.body;
  const int64_t missing = parsed_.body_bytes - static_cast<int64_t>(body.size());
  const int64_t take = std::min(bytes->size, missing);
  body += BytesText(bytes->Sub(0, take));
  *bytes = bytes->Sub(take, bytes->size - take);
  if (take < missing) return false;
  if (Crc32c(body.data(), parsed_.body_bytes) != parsed_.body_crc) {
    error_ = Corrupt("checksum of the body");
    return error_;
  }
  *message = std::move(parsed_.message);
  parsed_ = {};
  head_filled_ = 0;
  return true;
}

}  // namespace gradwire
