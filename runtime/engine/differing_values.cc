#include "runtime/engine/differing_values.h"

#include <algorithm>
#include <cstddef>

namespace gradwire {
namespace {

// Of a value; EncodeStatus has room for twice as much and for ranks behind it.
constexpr size_t kMostBytes = 200;
// Of these before the difference, where an item is that long.
constexpr size_t kMostBefore = kMostBytes / 2;

bool ContinuesACharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Of the item that has the first difference. Items are parted by commas.
size_t FirstShown(const std::string& a, const std::string& b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto same = static_cast<size_t>(ends.first - a.begin());
  if (same == 0) return 0;
  const size_t comma = a.rfind(',', same - 1);
  const size_t item = comma == a.npos ? 0 : comma + 1;
  size_t first = same - std::min(same - item, kMostBefore);
  while (first < same && ContinuesACharacter(a[first])) ++first;
  return first;
}

std::string Shown(const std::string& value, size_t first) {
  size_t last = std::min(first + kMostBytes, value.size());
  while (last > first && last < value.size() && ContinuesACharacter(value[last])) --last;
  const std::string text = value.substr(first, last - first);
  return (first == 0 ? "" : "...") + text + (first + text.size() == value.size() ? "" : "...");
}

}  // namespace

DifferingValues FromWhereTheyDiffer(const std::string& expected, const std::string& actual) {
  if (std::max(expected.size(), actual.size()) <= kMostBytes) return {expected, actual};
  const size_t first = FirstShown(expected, actual);
  return {Shown(expected, first), Shown(actual, first)};
}

}  // namespace gradwire
