// Strings and numbers as JSON text.
#ifndef GRADWIRE_RUNTIME_JSON_TEXT_H_
#define GRADWIRE_RUNTIME_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace gradwire {

// With its quotes. JSON is UTF-8: bytes that are none, as in a name of another encoding, are told
// as U+FFFD each.
std::string JsonText(std::string_view text);

// Numbers that JSON does not have, such as the distance of a codec that keeps nothing, are null.
std::string NumberText(double value);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_JSON_TEXT_H_
