// The known name that is nearest to a mistyped one.
#ifndef GRADWIRE_BASE_NEAREST_NAME_H_
#define GRADWIRE_BASE_NEAREST_NAME_H_

#include <span>
#include <string>
#include <string_view>

namespace gradwire {

// The candidate with the smallest edit distance to `name` (one letter more, less, other, or two
// neighbours swapped count 1 each, all that an abbreviation leaves out 1; case counts nothing); the
// first of equals. Empty where none has enough in common with it: at most every third letter of the
// longer one wrong, or one a part of the other, of at least three letters. Words that all
// candidates begin with, as "GRADWIRE_", and "--" are left out of that. Only the first 64 letters
// count, so hostile input stays cheap.
std::string NearestName(std::string_view name, std::span<const std::string_view> candidates);

// "Did you mean 'ring'?", as hints begin that help with a name; empty where none is near, so errors
// also say what there is.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);

// The same with `choices` behind it, which says what there is or where it is listed: "Did you mean
// 'ring'? There are: ring, tree". Where no candidate is near, `choices` alone.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates,
                       std::string_view choices);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_NEAREST_NAME_H_
