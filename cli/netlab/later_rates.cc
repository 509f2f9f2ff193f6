#include "cli/netlab/later_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/netlab/rate.h"

namespace gradwire {
namespace {

StatusOr<LaterRate> ParseLaterRate(const std::string& text) {
  const size_t equals = text.find('=');
  double seconds = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool understood =
      equals != text.npos && error == std::errc() && rest == text.data() + equals;
  // Written so that NaN is refused.
  if (!understood || !(seconds >= 0 && seconds <= kMaxSeconds)) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no later rate", text),
                  "Write seconds and a rate, as 20=100mbit");
  }
  const std::string rate_text = text.substr(equals + 1);
  const StatusOr<int64_t> rate = ParseRate(rate_text);
  if (!rate.ok()) return rate.status();
  return LaterRate{static_cast<int64_t>(seconds * kNsPerSecond), rate_text, *rate};
}

}  // namespace

StatusOr<std::vector<LaterRate>> ParseLaterRates(std::span<const std::string> texts) {
  std::vector<LaterRate> rates;
  for (const std::string& text : texts) {
    StatusOr<LaterRate> rate = ParseLaterRate(text);
    if (!rate.ok()) return rate.status();
    rates.push_back(std::move(*rate));
  }
  std::stable_sort(rates.begin(), rates.end(),
                   [](const LaterRate& a, const LaterRate& b) { return a.at_ns < b.at_ns; });
  return rates;
}

}  // namespace gradwire
