#include "cli/netlab/rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace gradwire {
namespace {

struct Unit {
  std::string_view name;
  double bits_per_s;
};

constexpr std::array kUnits = {Unit{"kbit", 1e3}, Unit{"mbit", 1e6}, Unit{"gbit", 1e9},
                               Unit{"tbit", 1e12}, Unit{"bit", 1}};
constexpr double kMinRate = 64e3;
constexpr double kMaxRate = 1e12;
constexpr int64_t kLeastBurstBytes = 1600;  // a frame has 1514

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

}  // namespace

StatusOr<int64_t> ParseRate(std::string_view text) {
  const std::string lowered = Lowered(text);
  const char* const end = lowered.data() + lowered.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(lowered.data(), end, number, std::chars_format::fixed);
  const std::string_view unit_name(rest, static_cast<size_t>(end - rest));
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&](const Unit& u) { return u.name == unit_name; });
  const bool understood = error == std::errc() && unit != kUnits.end() && std::isfinite(number);
  const double rate = understood ? number * unit->bits_per_s : 0;
  if (rate < kMinRate || rate > kMaxRate) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no rate of a link", text),
                  "Write a number with kbit, mbit or gbit, as 200mbit, from 64kbit to 1000gbit");
  }
  return static_cast<int64_t>(std::llround(rate));
}

Shaping ShapingFor(int64_t rate_bits_per_s) {
  const int64_t bytes_per_s = rate_bits_per_s / 8;
  const int64_t burst_bytes = std::max<int64_t>(bytes_per_s / 500, kLeastBurstBytes);
  const int64_t limit_bytes = std::clamp<int64_t>(bytes_per_s / 20, 512 << 10, 32 << 20);
  return {.rate_bits_per_s = rate_bits_per_s,
          .burst_bytes = burst_bytes,
          .limit_bytes = std::max(limit_bytes, 2 * burst_bytes)};
}

}  // namespace gradwire
