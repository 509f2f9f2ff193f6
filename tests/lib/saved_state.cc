#include "tests/lib/saved_state.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/crc.h"

namespace gradwire {
namespace {

constexpr size_t kMagicBytes = 4, kLengthBytes = 8, kKindBytes = 4, kCrcBytes = 4;
constexpr uint32_t kResidual = 3, kLocal = 4;

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

}  // namespace gradwire
