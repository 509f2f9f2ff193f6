#include "tests/lib/saved_state.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/crc.h"

namespace gradwire {
namespace {

constexpr size_t kMagicBytes = 4, kLengthBytes = 8, kKindBytes = 4, kCrcBytes = 4;
constexpr uint32_t kOrigin = 1, kTensor = 2, kResidual = 3, kLocal = 4;

// Each part, of its length, kind, content and checksum, at `begin`, with its content up to `end`.
void ForEachPart(std::string_view state, const std::function<void(size_t begin, size_t end)>& see) {
  size_t begin = kMagicBytes;
  while (state.size() >= begin + kLengthBytes + kCrcBytes) {
    uint64_t length = 0;
    std::memcpy(&length, state.data() + begin, kLengthBytes);
    if (length > state.size() - begin - kLengthBytes - kCrcBytes) return;
    const size_t end = begin + kLengthBytes + length;
    see(begin, end);
    begin = end + kCrcBytes;
  }
}

std::string OriginOf(std::string_view content, int rank, int world_size) {
  ByteReader in(content);
  const auto format = in.Get<uint32_t>();
  in.Get<uint64_t>();  // rank and world size
  ByteWriter out;
  out.Put(format, static_cast<int32_t>(rank), static_cast<int32_t>(world_size), in.Get<uint64_t>());
  return std::move(out).Take();
}

// Its spec goes where it has neither replicated nor local state.
std::string TensorOf(std::string_view content, bool has_local) {
  ByteReader in(content);
  ByteWriter out;
  out.PutText(in.GetText());   // name
  out.Put(in.Get<int32_t>());  // type
  const auto dims = in.Get<uint32_t>();
  out.Put(dims);
  for (uint32_t i = 0; i < dims; ++i) out.Put(in.Get<int64_t>());
  const std::string spec = in.GetText();
  const auto step = in.Get<uint64_t>();
  const auto operations = in.Get<uint32_t>();
  const ConstBytes replicated = in.GetBytes();
  out.PutText(has_local || !replicated.empty() ? spec : "");
  out.Put(step, operations);
  out.PutBytes(replicated);
  return std::move(out).Take();
}

std::string PartOf(uint32_t kind, std::string_view content) {
  ByteWriter part, out;
  part.Put(kind);
  part.Append(TextBytes(content));
  out.PutText(part.bytes());
  out.Put(Crc32c(part.bytes().data(), static_cast<int64_t>(part.bytes().size())));
  return std::move(out).Take();
}

}  // namespace

void SealState(std::string* state) {
  ForEachPart(*state, [&](size_t begin, size_t end) {
    const size_t content = begin + kLengthBytes;
    const uint32_t crc = Crc32c(state->data() + content, static_cast<int64_t>(end - content));
    std::memcpy(state->data() + end, &crc, kCrcBytes);
  });
}

std::string WithoutOwnParts(const std::string& state) {
  std::string alike = state.substr(0, kMagicBytes);
  ForEachPart(state, [&](size_t begin, size_t end) {
    uint32_t kind = 0;
    std::memcpy(&kind, state.data() + begin + kLengthBytes, kKindBytes);
    if (kind != kResidual && kind != kLocal) alike += state.substr(begin, end + kCrcBytes - begin);
  });
  return alike;
}

std::string AsSavedBy(int rank, int world_size, const std::string& state) {
  std::vector<std::string_view> parts;  // kinds and contents
  ForEachPart(state, [&](size_t begin, size_t end) {
    parts.push_back(
        std::string_view(state).substr(begin + kLengthBytes, end - begin - kLengthBytes));
  });
  std::string own;
  bool has_local = false;  // the tensor that is read next: its parts come from the end
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const auto kind = ByteReader(*part).Get<uint32_t>();
    std::string content(part->substr(kKindBytes));
    if (kind == kLocal) has_local = true;
    if (kind == kTensor) content = TensorOf(content, std::exchange(has_local, false));
    if (kind == kOrigin) content = OriginOf(content, rank, world_size);
    own.insert(0, PartOf(kind, content));
  }
  return state.substr(0, kMagicBytes) + own;
}

}  // namespace gradwire
