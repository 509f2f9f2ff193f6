#include "transports/bootstrap/roster.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gradwire {
namespace {

void AppendText(const std::string& text, std::string* out) {
  const auto bytes = static_cast<uint32_t>(text.size());
  out->append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  *out += text;
}

// Moves one text from the front of in[*at..].
bool TakeText(const std::string& in, size_t* at, std::string* text) {
  uint32_t bytes;
  if (in.size() - *at < sizeof(bytes)) return false;
  std::memcpy(&bytes, in.data() + *at, sizeof(bytes));
  *at += sizeof(bytes);
  if (bytes > kMaxBlobBytes || in.size() - *at < bytes) return false;
  *text = in.substr(*at, bytes);
  *at += bytes;
  return true;
}

}  // namespace

std::string EncodeRoster(const Roster& roster) {
  std::string out;
  AppendText(roster.settings, &out);
  for (const std::string& blob : roster.blobs) AppendText(blob, &out);
  return out;
}

StatusOr<Roster> DecodeRoster(const std::string& text, int world_size) {
  const Status corrupt(gwDataCorrupt, "unreadable roster");
  Roster roster;
  size_t at = 0;
  if (!TakeText(text, &at, &roster.settings)) return corrupt;
  for (int r = 0; r < world_size; ++r) {
    std::string blob;
    if (!TakeText(text, &at, &blob)) return corrupt;
    roster.blobs.push_back(std::move(blob));
  }
  if (at != text.size()) return corrupt;
  return roster;
}

std::string EncodeParts(const std::string& text, ControlMessage part) {
  std::string wire;
  size_t at = 0;
  do {
    part.body = text.substr(at, kMaxControlBodyBytes);
    part.fields = RosterFields{.offset_bytes = static_cast<uint32_t>(at),
                               .total_bytes = static_cast<uint32_t>(text.size())};
    wire += EncodeControl(part);
    at += part.body.size();
  } while (at < text.size());
  return wire;
}

StatusOr<bool> PartAssembler::Add(const ControlMessage& part) {
  const auto* fields = part.get<RosterFields>();
  const Status corrupt(gwDataCorrupt, "ROSTER parts that do not fit together");
  if (fields == nullptr || fields->total_bytes > max_bytes_) return corrupt;
  if (fields->offset_bytes != text_.size()) return corrupt;
  if (text_.size() + part.body.size() > fields->total_bytes) return corrupt;
  if (part.body.empty() && fields->total_bytes > 0) return corrupt;
  text_ += part.body;
  return text_.size() == fields->total_bytes;
}

}  // namespace gradwire
