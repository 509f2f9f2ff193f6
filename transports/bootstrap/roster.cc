#include "transports/bootstrap/roster.h"

#include <utility>

#include "base/byte_stream.h"

namespace gradwire {
namespace {

// False: there is none, or one too long.
bool TakeText(ByteReader* in, std::string* text) {
  *text = in->GetText<uint32_t>();
  return in->ok() && text->size() <= kMaxBlobBytes;
}

}  // namespace

std::string EncodeRoster(const Roster& roster) {
  ByteWriter out;
  out.PutText<uint32_t>(roster.settings);
  for (const std::string& blob : roster.blobs) out.PutText<uint32_t>(blob);
  return std::move(out).Take();
}

StatusOr<Roster> DecodeRoster(const std::string& text, int world_size) {
  const Status corrupt(gwDataCorrupt, "unreadable roster");
  ByteReader in(text);
  Roster roster;
  if (!TakeText(&in, &roster.settings)) return corrupt;
  for (int r = 0; r < world_size; ++r) {
    if (!TakeText(&in, &roster.blobs.emplace_back())) return corrupt;
  }
  if (!in.at_end()) return corrupt;
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
