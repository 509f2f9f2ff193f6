// What control connections and ids may bring, on any bytes: [what, how, text]. With how & 1 the
// checksums of the messages in the text are made right first; how >> 1 is the size of the pieces it
// arrives in.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/crc.h"
#include "tests/fuzz/fuzz_target.h"
#include "transports/bootstrap/roster.h"
#include "transports/bootstrap/unique_id.h"
#include "transports/control/message.h"

namespace gradwire::fuzz {
namespace {

enum What : uint8_t { kStranger, kPeer, kReason, kRoster, kId, kWhats };

constexpr size_t kBodyBytesAt = 20, kBodyCrcAt = 248, kHeadCrcAt = 252;

// Makes both checksums of every whole message right.
void Seal(std::string* text) {
  for (size_t at = 0; text->size() - at >= kControlHeadBytes;) {
    char* head = text->data() + at;
    uint32_t body_bytes;
    std::memcpy(&body_bytes, head + kBodyBytesAt, 4);
    const size_t rest = text->size() - at - kControlHeadBytes;
    const int64_t body = static_cast<int64_t>(std::min<size_t>(body_bytes, rest));
    const uint32_t body_crc = Crc32c(head + kControlHeadBytes, body);
    std::memcpy(head + kBodyCrcAt, &body_crc, 4);
    const uint32_t head_crc = Crc32c(head, kHeadCrcAt);
    std::memcpy(head + kHeadCrcAt, &head_crc, 4);
    at += kControlHeadBytes + static_cast<size_t>(body);
  }
}

void CheckMessage(const ControlMessage& message) {
  FUZZ_CHECK(static_cast<int64_t>(message.body.size()) <= kMaxControlBodyBytes);
  FUZZ_CHECK(message.TypeName() != nullptr);
  MessageReader reader;
  reader.AllowBodies();
  const std::string wire = EncodeControl(message);
  ConstBytes bytes = TextBytes(wire);
  ControlMessage again;
  const StatusOr<bool> complete = reader.Next(&bytes, &again);
  FUZZ_CHECK(complete.ok() && *complete && again == message);
}

void ReadStream(const std::string& text, size_t piece, bool bodies) {
  MessageReader reader;
  if (bodies) reader.AllowBodies();
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    ConstBytes bytes = TextBytes(part);
    ControlMessage message;
    for (;;) {
      const StatusOr<bool> complete = reader.Next(&bytes, &message);
      if (!complete.ok()) {
        FUZZ_CHECK(complete.status().code() == gwDataCorrupt);
        return;
      }
      if (!*complete) break;
      FUZZ_CHECK(bodies || message.body.empty());
      CheckMessage(message);
    }
    FUZZ_CHECK(bytes.size == 0);
  }
}

void ReadRoster(const std::string& text, int world_size) {
  const StatusOr<Roster> roster = DecodeRoster(text, world_size);
  if (!roster.ok()) return;
  FUZZ_CHECK(roster->blobs.size() == static_cast<size_t>(world_size));
  FUZZ_CHECK(EncodeRoster(*roster) == text);
}

void ReadId(const std::string& text) {
  UniqueId id = {};
  std::memcpy(id.data(), text.data(), std::min(text.size(), id.size()));
  const StatusOr<UniqueIdContents> contents = ParseUniqueId(id);
  if (contents.ok()) FUZZ_CHECK(contents->root.port > 0 && contents->secret.size() == 32);
}

Input Seed(What what, uint8_t how, const std::string& text) {
  Input input(2 + text.size());
  input[0] = what;
  input[1] = how;
  std::memcpy(input.data() + 2, text.data(), text.size());
  return input;
}

std::vector<ControlMessage> Messages() {
  return {
      {.fields = HelloFields{.library_version = 100, .world_size = 4, .rank = 1}},
      {.fields = ProofFields{.wait_ms = 5}},
      {.fields = RosterFields{.offset_bytes = 0, .total_bytes = 4}, .body = "blob"},
      {.fields = ReadyFields{}},
      {.fields = HeartbeatFields{.slices_done = 9}},
      {.fields = RevokeFields{.culprit = 2, .scope = RevokeScope::kEpoch},
       .body = EncodeStatus(Status(gwPeerLost, "gone"))},
      {.fields = VoteFields{.step = 1, .ok = 1}, .body = std::string(300, 'v')},
      {.fields = ResultFields{.step = 1, .new_plan = 1}, .body = "plan"},
      {.fields = ByeFields{}},
  };
}

}  // namespace

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  std::string all;
  for (const ControlMessage& message : Messages()) {
    const std::string wire = EncodeControl(message);
    all += wire;
    seeds.push_back(Seed(kStranger, 0, wire));
    seeds.push_back(Seed(kPeer, 1, wire));
  }
  for (const uint8_t how : {0, 1, 4, 15, 255}) seeds.push_back(Seed(kPeer, how, all));
  seeds.push_back(Seed(kReason, 0, EncodeStatus(Status(gwMismatch, "text", "hint"))));
  seeds.push_back(Seed(kRoster, 3, EncodeRoster({.settings = "s", .blobs = {"a", "", "bcd"}})));
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
  FUZZ_CHECK(id.ok());
  seeds.push_back(Seed(kId, 0, {reinterpret_cast<const char*>(id->data()), id->size()}));
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire::fuzz;
  if (size < 2) return 0;
  const uint8_t how = data[1];
  std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  const size_t piece = how < 2 ? text.size() + 1 : how >> 1;
  switch (static_cast<What>(data[0] % kWhats)) {
    case kStranger:
    case kPeer:
      if (how & 1) Seal(&text);
      ReadStream(text, piece, data[0] % kWhats == kPeer);
      break;
    case kReason: FUZZ_CHECK(!gradwire::DecodeStatus(text).ok()); break;
    case kRoster: ReadRoster(text, how); break;
    case kId: ReadId(text); break;
    case kWhats: break;
  }
  return 0;
}
