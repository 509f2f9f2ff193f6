// Sizes on the command line.
#ifndef GRADWIRE_CLI_SIZE_TEXT_H_
#define GRADWIRE_CLI_SIZE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace gradwire {

// "8M", "1024", "64k", "1.5G": bytes or elements, 1e15 at most; K, M, G, T count powers of 1024.
// Nothing for other texts.
std::optional<int64_t> ParseSize(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_SIZE_TEXT_H_
