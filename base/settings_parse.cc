#include "base/settings_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/clock.h"

namespace gradwire {
namespace {

struct Suffix {
  std::string_view text;
  int64_t factor;
};

constexpr Suffix kByteSuffixes[] = {{"", 1},
                                    {"B", 1},
                                    {"K", 1 << 10},
                                    {"KiB", 1 << 10},
                                    {"M", 1 << 20},
                                    {"MiB", 1 << 20},
                                    {"G", 1 << 30},
                                    {"GiB", 1 << 30},
                                    {"T", int64_t{1} << 40},
                                    {"TiB", int64_t{1} << 40}};

constexpr Suffix kTimeSuffixes[] = {{"us", kNsPerUs},
                                    {"ms", kNsPerMs},
                                    {"s", kNsPerSecond},
                                    {"m", 60 * kNsPerSecond},
                                    {"h", 3600 * kNsPerSecond}};

bool SameText(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerAscii(x) == LowerAscii(y); });
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The unit that a duration's name ends in: "ms" of heartbeat_ms.
std::string_view UnitOf(const SettingRow& row) { return row.name.substr(row.name.rfind('_') + 1); }

int64_t NsOf(std::string_view unit) {
  for (const Suffix& suffix : kTimeSuffixes) {
    if (suffix.text == unit) return suffix.factor;
  }
  return 0;
}

// A whole number and what stands behind it.
struct Number {
  int64_t value;
  std::string_view rest;
};

std::optional<Number> TakeNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return Number{value, Trim(text.substr(static_cast<size_t>(end - text.data())))};
}

// `text` as a number with one of `suffixes`, multiplied out.
std::optional<int64_t> ParseScaled(std::string_view text, std::span<const Suffix> suffixes) {
  const std::optional<Number> number = TakeNumber(text);
  if (!number) return std::nullopt;
  for (const Suffix& suffix : suffixes) {
    int64_t scaled = 0;
    if (!SameText(suffix.text, number->rest)) continue;
    if (__builtin_mul_overflow(number->value, suffix.factor, &scaled)) return std::nullopt;
    return scaled;
  }
  return std::nullopt;
}

std::optional<int64_t> ParseDuration(std::string_view text, std::string_view unit) {
  const std::optional<Number> number = TakeNumber(text);
  if (!number || !number->rest.empty()) return ParseScaled(text, kTimeSuffixes);
  return ParseScaled(fmt::format("{}{}", text, unit), kTimeSuffixes);
}

std::optional<int64_t> ParseBool(std::string_view text) {
  for (const std::string_view on : {"on", "true", "yes", "1"}) {
    if (SameText(text, on)) return 1;
  }
  for (const std::string_view off : {"off", "false", "no", "0"}) {
    if (SameText(text, off)) return 0;
  }
  return std::nullopt;
}

// `integer`, if there is one, from `min` to `max` times `unit`.
std::optional<ParsedSetting> Within(const SettingRow& row, std::optional<int64_t> integer,
                                    int64_t unit, std::string_view text) {
  if (!integer || *integer < row.min * unit || *integer > row.max * unit) return std::nullopt;
  return ParsedSetting{.text = std::string(text), .integer = *integer};
}

std::optional<ParsedSetting> ParseChoice(const SettingRow& row, std::string_view text,
                                         std::span<const std::string> names) {
  const std::vector<std::string_view> choices = SettingChoices(row, names);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (SameText(choices[i], text)) {
      return ParsedSetting{.text = std::string(choices[i]), .integer = static_cast<int64_t>(i)};
    }
  }
  const bool any = row.type == SettingType::kName && names.empty() && !text.empty();
  if (!any) return std::nullopt;
  return ParsedSetting{.text = std::string(text), .integer = -1};
}

}  // namespace

std::optional<ParsedSetting> ParseSetting(const SettingRow& row, std::string_view text,
                                          std::span<const std::string> names) {
  constexpr Suffix kNoSuffix[] = {{"", 1}};
  text = Trim(text);
  switch (row.type) {
    case SettingType::kInt: return Within(row, ParseScaled(text, kNoSuffix), 1, text);
    case SettingType::kBytes: return Within(row, ParseScaled(text, kByteSuffixes), 1, text);
    case SettingType::kDuration: {
      const std::string_view unit = UnitOf(row);
      return Within(row, ParseDuration(text, unit), NsOf(unit), text);
    }
    case SettingType::kBool: {
      const std::optional<int64_t> on = ParseBool(text);
      if (!on) return std::nullopt;
      return ParsedSetting{.text = *on != 0 ? "on" : "off", .integer = *on};
    }
    case SettingType::kEnum:
    case SettingType::kName: return ParseChoice(row, text, names);
    case SettingType::kString: return ParsedSetting{.text = std::string(text)};
  }
  return std::nullopt;
}

std::string DescribeAccepted(const SettingRow& row, std::span<const std::string> names) {
  switch (row.type) {
    case SettingType::kInt: return fmt::format("a whole number from {} to {}", row.min, row.max);
    case SettingType::kBool: return "on or off";
    case SettingType::kEnum: return fmt::format("{}", fmt::join(SettingChoices(row, names), ", "));
    case SettingType::kName:
      return fmt::format("{}{}", fmt::join(SettingChoices(row, names), ", "),
                         names.empty() ? " or a name" : "");
    case SettingType::kString: return "text";
    case SettingType::kBytes:
      return fmt::format("bytes from {} to {}, or with K, M, G (powers of 1024)", row.min, row.max);
    case SettingType::kDuration:
      return fmt::format("{} from {} to {}, or with a unit: us, ms, s, m, h", UnitOf(row), row.min,
                         row.max);
  }
  return {};
}

std::vector<std::string_view> SettingChoices(const SettingRow& row,
                                             std::span<const std::string> names) {
  std::vector<std::string_view> choices;
  for (std::string_view rest = row.choices; !rest.empty();) {
    const size_t bar = rest.find('|');
    choices.push_back(rest.substr(0, bar));
    rest.remove_prefix(bar == rest.npos ? rest.size() : bar + 1);
  }
  choices.insert(choices.end(), names.begin(), names.end());
  return choices;
}

std::string EnvironmentName(const SettingRow& row) {
  std::string name(kSettingPrefix);
  for (const char c : row.name) name += UpperAscii(c);
  return name;
}

}  // namespace gradwire
