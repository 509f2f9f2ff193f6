#include "cli/collective_name.h"

#include <fmt/format.h>

#include <cctype>
#include <string>
#include <vector>

#include "base/nearest_name.h"

namespace gradwire {
namespace {

std::string LettersOf(std::string_view text) {
  std::string letters;
  for (const unsigned char c : text) {
    if (c != '-' && c != '_') letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

}  // namespace

StatusOr<Collective> ParseCollective(std::string_view text) {
  std::vector<std::string_view> names;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    names.push_back(Name(collective));
    if (LettersOf(names.back()) == LettersOf(text)) return collective;
  }
  return Status(gwInvalidArgument, fmt::format("no collective '{}'", text),
                fmt::format("Did you mean '{}'?", NearestName(text, names)));
}

}  // namespace gradwire
