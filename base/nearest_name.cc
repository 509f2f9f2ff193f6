#include "base/nearest_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/ascii.h"

namespace gradwire {
namespace {

constexpr size_t kMaxLetters = 64;
// Shorter ones are parts of too many others.
constexpr size_t kMinPart = 3;
constexpr int kTooFar = std::numeric_limits<int>::max();

bool Same(char a, char b) { return LowerAscii(a) == LowerAscii(b); }

// Optimal string alignment distance, three rows of the table at a time.
int EditDistance(std::string_view a, std::string_view b) {
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

bool IsPart(std::string_view part, std::string_view whole) {
  if (part.size() < kMinPart) return false;
  return std::search(whole.begin(), whole.end(), part.begin(), part.end(), Same) != whole.end();
}

bool BeginsWith(std::string_view text, std::string_view start) {
  return std::ranges::equal(text.substr(0, start.size()), start, Same);
}

// kTooFar: they have too little in common. An abbreviation is no farther off than one slip.
int Distance(std::string_view name, std::string_view candidate) {
  name = name.substr(0, kMaxLetters);
  candidate = candidate.substr(0, kMaxLetters);
  const int edits = EditDistance(name, candidate);
  if (name.size() >= kMinPart && BeginsWith(candidate, name)) return std::min(edits, 1);
  const bool few_slips = 3 * static_cast<size_t>(edits) <= std::max(name.size(), candidate.size());
  return few_slips || IsPart(name, candidate) || IsPart(candidate, name) ? edits : kTooFar;
}

// How many letters of whole words, or of "--", `name` and all candidates begin with.
size_t CommonStart(std::string_view name, std::span<const std::string_view> candidates) {
  if (candidates.size() < 2) return 0;
  std::string_view start = candidates.front();
  for (const std::string_view other : candidates) {
    start = start.substr(0, std::ranges::mismatch(start, other).in1 - start.begin());
  }
  start = start.substr(0, start.find_last_of("-_") + 1);
  return BeginsWith(name, start) ? start.size() : 0;
}

}  // namespace

std::string NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  const size_t common = CommonStart(name, candidates);
  std::string_view nearest;
  int least = kTooFar;
  for (const std::string_view candidate : candidates) {
    const int distance = Distance(name.substr(common), candidate.substr(common));
    if (distance < least) nearest = candidate;
    least = std::min(least, distance);
  }
  return std::string(nearest);
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? nearest : "Did you mean '" + nearest + "'?";
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates,
                       std::string_view choices) {
  std::string hint = DidYouMean(name, candidates);
  if (!hint.empty()) hint += ' ';
  return hint.append(choices);
}

}  // namespace gradwire
