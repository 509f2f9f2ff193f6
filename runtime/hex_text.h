// Bytes as text: two hexadecimal digits each.
#ifndef GRADWIRE_RUNTIME_HEX_TEXT_H_
#define GRADWIRE_RUNTIME_HEX_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

namespace gradwire {

std::string ToHex(std::string_view bytes);
// Nothing: half a byte, or what is no digit.
std::optional<std::string> FromHex(std::string_view digits);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_HEX_TEXT_H_
