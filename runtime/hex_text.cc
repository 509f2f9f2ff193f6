#include "runtime/hex_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace gradwire {

std::string ToHex(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return digits;
}

std::optional<std::string> FromHex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < digits.size(); at += 2) {
    uint8_t byte = 0;
    const char* const end = digits.data() + at + 2;
    if (std::from_chars(digits.data() + at, end, byte, 16).ptr != end) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace gradwire
