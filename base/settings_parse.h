// One setting's text and what it means; used by settings.cc.
#ifndef GRADWIRE_BASE_SETTINGS_PARSE_H_
#define GRADWIRE_BASE_SETTINGS_PARSE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings_table.h"

namespace gradwire {

struct ParsedSetting {
  std::string text;  // as it is shown: trimmed, kEnum and kName as the table spells them, on or off
  int64_t integer = 0;  // kInt; kBool 0, 1; kEnum position in choices; kBytes bytes; kDuration ns
};

// The meaning of `text`, or nothing if `row` does not accept it. `names` are what a registry adds
// to the choices of a kName row; without any, a kName row accepts every text.
std::optional<ParsedSetting> ParseSetting(const SettingRow& row, std::string_view text,
                                          std::span<const std::string> names);

// What `row` accepts, for users: "a whole number from 1 to 64".
std::string DescribeAccepted(const SettingRow& row, std::span<const std::string> names);

// The choices of a kEnum or kName row and then `names`. Views into both.
std::vector<std::string_view> SettingChoices(const SettingRow& row,
                                             std::span<const std::string> names);

// "GRADWIRE_" and the name in capitals.
std::string EnvironmentName(const SettingRow& row);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_SETTINGS_PARSE_H_
