#include "cli/perf/size_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace gradwire {
namespace {

constexpr std::string_view kSuffixes = "kmgt";
constexpr double kMaxBytes = 1e15;
constexpr size_t kMaxSizes = 10'000;

// 1024 to the power of the suffix, 1 for none, 0 for one that is not understood.
double Multiplier(std::string_view suffix) {
  if (suffix.empty()) return 1;
  const char lowered = static_cast<char>(std::tolower(static_cast<unsigned char>(suffix[0])));
  const bool plain = suffix.size() == 1 || suffix.substr(1) == "B" || suffix.substr(1) == "iB";
  const size_t power = kSuffixes.find(lowered);
  if (!plain || power == kSuffixes.npos) return 0;
  return std::pow(1024.0, static_cast<double>(power + 1));
}

// The size after `bytes`; above range.max_bytes: there is none.
int64_t Next(const SizeRange& range, int64_t bytes) {
  if (range.step_bytes > 0) return bytes + range.step_bytes;
  const double next = static_cast<double>(bytes) * range.factor;
  // Rounding would overflow where the factor is huge.
  if (next > static_cast<double>(range.max_bytes) + 1) return range.max_bytes + 1;
  return std::max(static_cast<int64_t>(std::llround(next)), bytes + 1);
}

}  // namespace

StatusOr<int64_t> ParseSize(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const double multiplier =
      Multiplier(text.substr(static_cast<size_t>(std::distance(text.data(), rest))));
  const double bytes = number * multiplier;
  if (error != std::errc() || multiplier == 0 || !(bytes >= 0 && bytes <= kMaxBytes)) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no size", text),
                  "Write bytes, or a number with K, M or G, as 64M");
  }
  return static_cast<int64_t>(std::llround(bytes));
}

StatusOr<std::vector<int64_t>> ListSizes(const SizeRange& range) {
  if (range.max_bytes < range.min_bytes) {
    return Status(gwInvalidArgument, fmt::format("the largest size {} is below the smallest {}",
                                                 range.max_bytes, range.min_bytes));
  }
  if (range.step_bytes == 0 && !(range.factor > 1 && std::isfinite(range.factor))) {
    return Status(gwInvalidArgument,
                  fmt::format("the factor {} is no number above 1", range.factor));
  }
  std::vector<int64_t> sizes;
  for (int64_t bytes = range.min_bytes; bytes <= range.max_bytes; bytes = Next(range, bytes)) {
    if (sizes.size() == kMaxSizes) {
      return Status(gwInvalidArgument, fmt::format("these are more than {} sizes", kMaxSizes),
                    "Take a larger step or factor, or less from the smallest to the largest");
    }
    sizes.push_back(bytes);
  }
  return sizes;
}

}  // namespace gradwire
