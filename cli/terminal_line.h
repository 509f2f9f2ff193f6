// The line of a terminal that a program writes over, such as a bar of its progress.
#ifndef GRADWIRE_CLI_TERMINAL_LINE_H_
#define GRADWIRE_CLI_TERMINAL_LINE_H_

#include <string_view>

namespace gradwire {

// Clears the line from where the next character would be.
inline constexpr std::string_view kClearRest = "\x1b[K";
// Clears all of it and goes to its beginning.
inline constexpr std::string_view kClearLine = "\r\x1b[K";
static_assert(kClearLine.substr(1) == kClearRest);

// What a program that writes over its lines has left in the last one.
class TerminalLine {
 public:
  // What the program wrote: whole lines, and of the last one all up to now. One without a carriage
  // return is none that it writes over.
  void Write(std::string_view text);
  // Something of such a line is to be seen.
  bool shows() const { return shows_; }
  // Somebody else has ended or cleared it.
  void Forget() { shows_ = false; }

 private:
  bool shows_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_LINE_H_
