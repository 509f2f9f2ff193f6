#include "runtime/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gradwire {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

// Of UTF-8, by the length of a character in bytes: what its first byte begins with, and the least
// code that needs so many.
struct Form {
  uint8_t mask, begins;
  char32_t least;
};
constexpr Form kForms[] = {
    {0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
constexpr int kBitsOfOthers = 6;  // of each byte behind the first, which begins with 10

// The bytes of the character that `text` begins with; 0: of none. The Unicode standard, table 3-7.
size_t Utf8Bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t bytes = 1;
  while (bytes <= 4 && (byte(0) & kForms[bytes - 1].mask) != kForms[bytes - 1].begins) ++bytes;
  if (bytes > 4 || bytes > text.size()) return 0;
  const Form& form = kForms[bytes - 1];
  char32_t code = byte(0) & static_cast<uint8_t>(~form.mask);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << kBitsOfOthers | (byte(i) & 0x3F);
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < form.least || is_surrogate || code > 0x10FFFF ? 0 : bytes;
}

}  // namespace

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t bytes = Utf8Bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    text.remove_prefix(character.size());
    if (bytes == 0) {
      out += kReplacement;
    } else if (character == "\"" || character == "\\") {
      out += '\\';
      out += character;
    } else if (bytes == 1 && static_cast<uint8_t>(character[0]) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(character[0]));
    } else {
      out += character;
    }
  }
  return out + '"';
}

std::string NumberText(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

JsonObject& JsonObject::AddJson(std::string_view name, std::string_view json) {
  if (text_.size() > 1) text_ += ", ";
  text_ += JsonText(name);
  text_ += ": ";
  text_ += json;
  return *this;
}

}  // namespace gradwire
