#include "base/nearest_name.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/ascii.h"

namespace gradwire {
namespace {

constexpr size_t kMaxLetters = 64;

bool Same(char a, char b) { return LowerAscii(a) == LowerAscii(b); }

// Optimal string alignment distance, three rows of the table at a time.
int EditDistance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxLetters);
  b = b.substr(0, kMaxLetters);
  std::array<std::array<int, kMaxLetters + 1>, 3> rows = {};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    const auto& before = rows[(i + 1) % 3];
    const auto& above = rows[(i - 1) % 3];
    auto& row = rows[i % 3];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int other = Same(a[i - 1], b[j - 1]) ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + other});
      const bool swapped = i > 1 && j > 1 && Same(a[i - 1], b[j - 2]) && Same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

// An abbreviation is no farther off than one slip.
int Distance(std::string_view name, std::string_view candidate) {
  const int edits = EditDistance(name, candidate);
  const bool abbreviates = std::ranges::equal(name, candidate.substr(0, name.size()), Same);
  return abbreviates ? std::min(edits, 1) : edits;
}

}  // namespace

std::string NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  const auto nearest = std::min_element(candidates.begin(), candidates.end(), [&](auto a, auto b) {
    return Distance(name, a) < Distance(name, b);
  });
  return nearest == candidates.end() ? std::string() : std::string(*nearest);
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  if (candidates.empty()) return {};
  return "Did you mean '" + NearestName(name, candidates) + "'?";
}

}  // namespace gradwire
