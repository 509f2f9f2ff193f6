// The known name that is nearest to a mistyped one.
#ifndef GRADWIRE_BASE_NEAREST_NAME_H_
#define GRADWIRE_BASE_NEAREST_NAME_H_

#include <span>
#include <string>
#include <string_view>

namespace gradwire {

// The candidate with the smallest edit distance to `name` (one letter more, less, other, or two
// neighbours swapped count 1 each, all that an abbreviation leaves out 1; case counts nothing); the
// first of equals. Empty without candidates. Only the first 64 letters count, so hostile input
// stays cheap.
std::string NearestName(std::string_view name, std::span<const std::string_view> candidates);

// "Did you mean 'ring'?", as hints begin that help with a name; empty without candidates.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_NEAREST_NAME_H_
