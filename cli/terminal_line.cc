#include "cli/terminal_line.h"

namespace gradwire {

void TerminalLine::Write(std::string_view text) {
  if (const size_t feed = text.rfind('\n'); feed != text.npos) {
    shows_ = false;
    text.remove_prefix(feed + 1);
  }
  if (text.find('\r') == text.npos) return;
  if (const size_t clear = text.rfind(kClearLine); clear != text.npos) {
    shows_ = false;
    text.remove_prefix(clear + kClearLine.size());
  }
  shows_ = shows_ || text.find_first_not_of('\r') != text.npos;
}

}  // namespace gradwire
