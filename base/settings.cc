#include "base/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/settings_toml.h"

namespace gradwire {
namespace {

std::span<const std::string> NamesFor(const SettingRow& row, const SettingsInput& in) {
  const auto found = in.names.find(std::string(row.name));
  if (found == in.names.end()) return {};
  return found->second;
}

// There are too many to list them.
std::string SuggestAmong(std::string_view name, std::span<const std::string_view> names) {
  const std::string hint = DidYouMean(name, names);
  return hint.empty() ? "gradwire info -c lists the settings" : hint;
}

// For the file and the API.
std::string SuggestSetting(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SettingRow& row : kSettings) names.push_back(row.name);
  return SuggestAmong(name, names);
}

std::string UnknownVariable(const std::string& variable) {
  std::vector<std::string> known;
  for (const SettingRow& row : kSettings) known.push_back(EnvironmentName(row));
  for (const OtherVariable& other : kOtherVariables) known.emplace_back(other.name);
  const std::vector<std::string_view> names(known.begin(), known.end());
  return fmt::format("environment variable {} is no setting of gradwire and has no effect. {}",
                     variable, SuggestAmong(variable, names));
}

// How the message begins; why follows.
std::string RefusalOf(std::string_view name, std::string_view text, std::string_view origin) {
  return fmt::format("setting '{}' = '{}' (from {}): ", name, text, origin);
}

// The row of a variable, or kSettings.size().
size_t FindVariable(std::string_view variable) {
  size_t i = 0;
  while (i < kSettings.size() && EnvironmentName(kSettings[i]) != variable) ++i;
  return i;
}

bool IsOtherVariable(std::string_view variable) {
  return std::any_of(kOtherVariables.begin(), kOtherVariables.end(),
                     [&](const OtherVariable& other) { return other.name == variable; });
}

}  // namespace

struct Settings::Given {
  std::string_view name;
  std::string_view text;
  SettingSource source;
  std::string origin;
};

std::string ConfigPath(const SettingsInput& in) {
  if (const auto api = in.api.find("config"); api != in.api.end()) return api->second;
  const auto variable = in.environment.find("GRADWIRE_CONFIG");
  return variable != in.environment.end() ? variable->second : std::string();
}

Settings::Settings() {
  for (const SettingRow& row : kSettings) {
    values_.push_back({.parsed = ParseSetting(row, row.default_text, {}).value_or(ParsedSetting{}),
                       .source = SettingSource::kDefault,
                       .origin = "default"});
  }
}

Status Settings::Explain(Status error) const {
  const size_t index = settings_internal::Find(error.detail().setting);
  if (index == kSettings.size() || values_[index].source == SettingSource::kDefault) return error;
  ErrorDetail detail = error.detail();
  detail.setting.clear();
  detail.message =
      RefusalOf(kSettings[index].name, ShownText(index), values_[index].origin) + detail.message;
  return Status(error.code(), std::move(detail));
}

StatusOr<Settings> Settings::Load(const SettingsInput& in) {
  Settings settings;
  // From the weakest source to the strongest: each replaces what is there.
  GW_RETURN_IF_ERROR(settings.ApplyFile(in));
  GW_RETURN_IF_ERROR(settings.ApplyEnvironment(in));
  GW_RETURN_IF_ERROR(settings.ApplyApi(in));
  GW_RETURN_IF_ERROR(settings.CheckTogether());
  return settings;
}

Status Settings::Set(const Given& given, const SettingsInput& in) {
  const size_t index = settings_internal::Find(given.name);
  if (index == kSettings.size()) {
    return Status(gwInvalidArgument,
                  fmt::format("unknown setting '{}' (from {})", given.name, given.origin),
                  SuggestSetting(given.name));
  }
  const SettingRow& row = kSettings[index];
  if (given.source == SettingSource::kFile && row.scope == SettingScope::kLaunch) {
    return Status(
        gwInvalidArgument,
        fmt::format("setting '{}' differs from process to process and cannot come from {}",
                    row.name, given.origin),
        fmt::format("Use the environment variable {}", EnvironmentName(row)));
  }
  const std::span<const std::string> names = NamesFor(row, in);
  std::optional<ParsedSetting> parsed = ParseSetting(row, given.text, names);
  if (!parsed) {
    return Status(
        gwInvalidArgument,
        RefusalOf(row.name, given.text, given.origin) + "accepted: " + DescribeAccepted(row, names),
        DidYouMean(given.text, SettingChoices(row, names)));
  }
  values_[index] = {.parsed = std::move(*parsed), .source = given.source, .origin = given.origin};
  return Status::Ok();
}

Status Settings::ApplyFile(const SettingsInput& in) {
  const StatusOr<std::vector<TomlEntry>> entries = ReadTomlEntries(in.toml_text, in.toml_path);
  if (!entries.ok()) return entries.status();
  for (const TomlEntry& entry : *entries) {
    GW_RETURN_IF_ERROR(Set({entry.name, entry.text, SettingSource::kFile, entry.origin}, in));
  }
  return Status::Ok();
}

Status Settings::ApplyEnvironment(const SettingsInput& in) {
  for (const auto& [variable, text] : in.environment) {
    if (!variable.starts_with(kSettingPrefix) || IsOtherVariable(variable)) continue;
    const size_t index = FindVariable(variable);
    if (index == kSettings.size()) {
      warnings_.push_back(UnknownVariable(variable));
    } else if (!text.empty()) {  // `GRADWIRE_X= command` unsets for one command, as users expect
      const std::string_view name = kSettings[index].name;
      GW_RETURN_IF_ERROR(Set({name, text, SettingSource::kEnvironment, variable}, in));
    }
  }
  return Status::Ok();
}

Status Settings::ApplyApi(const SettingsInput& in) {
  for (const auto& [name, text] : in.api) {
    GW_RETURN_IF_ERROR(Set({name, text, SettingSource::kApi, in.api_origin}, in));
  }
  return Status::Ok();
}

Status Settings::CheckTogether() const {
  if (DurationNs("heartbeat_timeout_ms") < 2 * DurationNs("heartbeat_ms")) {
    const auto timeout = settings_internal::Find("heartbeat_timeout_ms");
    const auto period = settings_internal::Find("heartbeat_ms");
    return Status(
        gwInvalidArgument,
        fmt::format("heartbeat_timeout_ms = {} (from {}) is less than twice heartbeat_ms = {} "
                    "(from {})",
                    ShownText(timeout), values_[timeout].origin, ShownText(period),
                    values_[period].origin),
        "A rank would count as lost for one sign of life that is late; 5 times as long is usual");
  }
  if (is_set("rank") && is_set("world_size") && Int("rank") >= Int("world_size")) {
    return Status(gwInvalidArgument,
                  fmt::format("rank = {} (from {}) is not below world_size = {} (from {})",
                              Int("rank"), origin("rank"), Int("world_size"), origin("world_size")),
                  "Ranks count from 0");
  }
  return Status::Ok();
}

}  // namespace gradwire
