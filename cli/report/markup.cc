#include "cli/report/markup.h"

namespace gradwire {

std::string EscapeMarkup(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\t':
      case '\n': escaped += c; break;
      default:
        // XML has no other control characters, not even escaped.
        if (static_cast<unsigned char>(c) < ' ') {
          escaped += "\uFFFD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

}  // namespace gradwire
