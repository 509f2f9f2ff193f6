#include "base/ranks_text.h"

#include <fmt/format.h>

namespace gradwire {

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last < i + 2) last = i;  // two neighbours read better apart
    parts.push_back(last == i ? fmt::format("{}", ranks[i])
                              : fmt::format("{} to {}", ranks[i], ranks[last]));
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

}  // namespace gradwire
