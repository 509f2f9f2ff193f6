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

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_LINE_H_
