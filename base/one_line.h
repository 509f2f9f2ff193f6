// Text from elsewhere in what must be one line.
#ifndef GRADWIRE_BASE_ONE_LINE_H_
#define GRADWIRE_BASE_ONE_LINE_H_

#include <string>

namespace gradwire {

// With a space for each line break.
inline std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_ONE_LINE_H_
