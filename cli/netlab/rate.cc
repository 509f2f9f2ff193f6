#include "cli/netlab/rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "base/clock.h"

namespace gradwire {
namespace {

struct Unit {
  std::string_view name;
  double amount;
};

constexpr std::array kRateUnits = {Unit{"kbit", 1e3}, Unit{"mbit", 1e6}, Unit{"gbit", 1e9},
                                   Unit{"tbit", 1e12}, Unit{"bit", 1}};
constexpr double kMinRate = 64e3;
constexpr double kMaxRate = 1e12;
constexpr std::string_view kDelay = "delay=";
constexpr std::array kTimeUnits = {Unit{"us", kNsPerUs}, Unit{"ms", kNsPerMs},
                                   Unit{"s", kNsPerSecond}};
constexpr double kMaxDelayNs = kNsPerSecond;

constexpr int64_t kLeastBurstBytes = 1600;  // a frame has 1514

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

// A number with one of the units behind it, in what they are counted in; none: another text.
template <size_t kCount>
std::optional<double> ParseAmount(std::string_view text, const std::array<Unit, kCount>& units) {
  const std::string lowered = Lowered(text);
  const char* const end = lowered.data() + lowered.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(lowered.data(), end, number, std::chars_format::fixed);
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == name; });
  if (error != std::errc() || unit == units.end() || !std::isfinite(number)) return std::nullopt;
  return number * unit->amount;
}

}  // namespace

StatusOr<int64_t> ParseRate(std::string_view text) {
  const double rate = ParseAmount(text, kRateUnits).value_or(0);
  if (rate < kMinRate || rate > kMaxRate) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no rate of a link", text),
                  "Write a number with kbit, mbit or gbit, as 200mbit, from 64kbit to 1000gbit");
  }
  return static_cast<int64_t>(std::llround(rate));
}

StatusOr<Link> ParseLink(std::string_view text) {
  const size_t comma = text.find(',');
  const StatusOr<int64_t> rate = ParseRate(text.substr(0, comma));
  if (!rate.ok()) return rate.status();
  if (comma == text.npos) return Link{.rate_bits_per_s = *rate};
  const std::string_view what = text.substr(comma + 1);
  const bool is_delay = Lowered(what.substr(0, kDelay.size())) == kDelay;
  const double delay_ns =
      is_delay ? ParseAmount(what.substr(kDelay.size()), kTimeUnits).value_or(-1) : -1;
  if (delay_ns < 0 || delay_ns > kMaxDelayNs) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no delay of a link", what),
                  "Write a number with us, ms or s behind delay=, as 200mbit,delay=20ms, up to 1s");
  }
  return Link{.rate_bits_per_s = *rate, .delay_ns = static_cast<int64_t>(std::llround(delay_ns))};
}

Shaping ShapingFor(int64_t rate_bits_per_s) {
  const int64_t bytes_per_s = rate_bits_per_s / 8;
  const int64_t burst_bytes = std::max<int64_t>(bytes_per_s / 500, kLeastBurstBytes);
  const int64_t limit_bytes = std::clamp<int64_t>(bytes_per_s / 20, 512 << 10, 32 << 20);
  return {.rate_bits_per_s = rate_bits_per_s,
          .burst_bytes = burst_bytes,
          .limit_bytes = std::max(limit_bytes, 2 * burst_bytes)};
}

// Each frame's headers, which the shaper counts too, are at most a tenth of it. No longer than what
// all kernels have to begin with, since they may refuse more.
int64_t LongestSegmentAt(int64_t rate_bits_per_s) {
  return std::min<int64_t>(ShapingFor(rate_bits_per_s).burst_bytes * 9 / 10, 65536);
}

}  // namespace gradwire
