#include "runtime/engine/operation.h"

#include "base/hash.h"

namespace gradwire {

std::string EncodeOpText(const OpText& text) {
  std::string out;
  for (const auto& [name, value] : text) out += name + "=" + value + "\n";
  return out;
}

OpText DecodeOpText(std::string_view text) {
  OpText out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (const size_t sign = line.find('='); sign != std::string_view::npos) {
      out.emplace_back(line.substr(0, sign), line.substr(sign + 1));
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

uint64_t HashOpText(const OpText& text) { return HashString(EncodeOpText(text)); }

std::string FindInOpText(const OpText& text, std::string_view name) {
  for (const auto& [key, value] : text) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace gradwire
