// Strings and numbers as JSON text.
#ifndef GRADWIRE_RUNTIME_JSON_TEXT_H_
#define GRADWIRE_RUNTIME_JSON_TEXT_H_

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

namespace gradwire {

inline std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Numbers that JSON does not have, such as the distance of a codec that keeps nothing, are null.
inline std::string NumberText(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_JSON_TEXT_H_
