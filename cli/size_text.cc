#include "cli/size_text.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/ascii.h"

namespace gradwire {
namespace {

constexpr std::string_view kSuffixes = "kmgt";
constexpr double kMaxSize = 1e15;

// 1024 to the power of the suffix, 1 for none, 0 for one that is not understood.
double Multiplier(std::string_view suffix) {
  if (suffix.empty()) return 1;
  const bool plain = suffix.size() == 1 || suffix.substr(1) == "B" || suffix.substr(1) == "iB";
  const size_t power = kSuffixes.find(LowerAscii(suffix[0]));
  if (!plain || power == kSuffixes.npos) return 0;
  return std::pow(1024.0, static_cast<double>(power + 1));
}

}  // namespace

std::optional<int64_t> ParseSize(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const double multiplier =
      Multiplier(text.substr(static_cast<size_t>(std::distance(text.data(), rest))));
  const double size = number * multiplier;
  if (error != std::errc() || multiplier == 0 || !(size >= 0 && size <= kMaxSize)) return {};
  return static_cast<int64_t>(std::llround(size));
}

}  // namespace gradwire
