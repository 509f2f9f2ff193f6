// The values of all settings of settings_table.h, and where each came from.
//
//   SettingsInput in;
//   in.environment = ProcessEnvironment();
//   StatusOr<Settings> settings = Settings::Load(in);
//   int64_t timeout_ns = settings->DurationNs("heartbeat_timeout_ms");
//
// Precedence: API, environment, gradwire.toml, default. Names in code are checked by the compiler:
// a name that is in no row, or read as another type than its row's, does not compile.
#ifndef GRADWIRE_BASE_SETTINGS_H_
#define GRADWIRE_BASE_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest_name.h"
#include "base/settings_parse.h"
#include "base/settings_table.h"
#include "base/status.h"

namespace gradwire {

enum class SettingSource : uint8_t { kDefault, kFile, kEnvironment, kApi };

// Texts by name; sorted, so that messages come in one order.
using SettingTexts = std::map<std::string, std::string>;

// Everything settings are made of. Nothing else is read: no file, no environment.
struct SettingsInput {
  SettingTexts api;                // by setting name
  std::string api_origin = "API";  // for messages
  SettingTexts environment;        // by variable name; only those that begin with GRADWIRE_ count
  std::string toml_text;           // contents of gradwire.toml; empty: there is none
  std::string toml_path = "gradwire.toml";  // for messages
  // What a kName row accepts beside its choices, from the registries: {"transport", {"loopback",
  // ...}}. A row without an entry accepts any name.
  std::map<std::string, std::vector<std::string>> names;
};

// The path of gradwire.toml by API or environment; empty if neither gives one. It must be known
// before the file can be read into SettingsInput.
std::string ConfigPath(const SettingsInput& in);

namespace settings_internal {

constexpr size_t Find(std::string_view name) {
  size_t i = 0;
  while (i < kSettings.size() && kSettings[i].name != name) ++i;
  return i;
}

// Never defined: reaching one of these stops the compiler.
void NoSettingHasThisName();
void TheSettingHasAnotherType();

}  // namespace settings_internal

// The place in kSettings of a setting whose type is one of kTypes (any, if there are none).
template <SettingType... kTypes>
class SettingKey {
 public:
  consteval SettingKey(const char* name)  // NOLINT(google-explicit-constructor): reads as a name
      : index_(settings_internal::Find(name)) {
    if (index_ == kSettings.size()) settings_internal::NoSettingHasThisName();
    const bool fits = sizeof...(kTypes) == 0 || ((kSettings[index_].type == kTypes) || ...);
    if (!fits) settings_internal::TheSettingHasAnotherType();
  }
  constexpr size_t index() const { return index_; }

 private:
  size_t index_;
};

struct SettingValue {
  ParsedSetting parsed;
  SettingSource source = SettingSource::kDefault;
  std::string origin;  // "default", "gradwire.toml:12", "GRADWIRE_WINDOW" or as the API's is called
};

// A value object: copy it freely. Reading is safe from any thread.
class Settings {
 public:
  // All defaults.
  Settings();

  // gwInvalidArgument: a value that its setting does not accept, also one that a stronger source
  // hides; an unknown name in the file or the API; values that contradict each other. The message
  // names the setting, the value, its origin and what is accepted, the hint the nearest name.
  static StatusOr<Settings> Load(const SettingsInput& in);

  int64_t Int(SettingKey<SettingType::kInt> key) const { return Parsed(key).integer; }
  bool Bool(SettingKey<SettingType::kBool> key) const { return Parsed(key).integer != 0; }
  int64_t Bytes(SettingKey<SettingType::kBytes> key) const { return Parsed(key).integer; }
  int64_t DurationNs(SettingKey<SettingType::kDuration> key) const { return Parsed(key).integer; }
  // The position in the row's choices.
  int64_t Choice(SettingKey<SettingType::kEnum> key) const { return Parsed(key).integer; }
  // Valid as long as the settings.
  const std::string& Text(
      SettingKey<SettingType::kString, SettingType::kEnum, SettingType::kName> key) const {
    return Parsed(key).text;
  }

  SettingSource source(SettingKey<> key) const { return values_[key.index()].source; }
  const std::string& origin(SettingKey<> key) const { return values_[key.index()].origin; }
  bool is_set(SettingKey<> key) const { return source(key) != SettingSource::kDefault; }

  // Value i belongs to kSettings[i]. Holds secrets: show ShownText.
  const std::vector<SettingValue>& values() const { return values_; }

  // `error`, with the setting that it names, its value and where that came from in front; as it is
  // where it names none, or one at its default. For refusals by who knows nothing of origins.
  Status Explain(Status error) const;

  // A value as users may see it: a secret reads "(set)" or is empty.
  std::string ShownText(size_t index) const;

  // One line for each GRADWIRE_ variable that is no setting, with the nearest that is. For the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The table of `gradwire info -c`: name, value, origin, meaning; a line each, under a # header.
  std::string ToTable() const;

 private:
  struct Given;  // a name and a text on their way in, with their origin

  template <SettingType... kTypes>
  const ParsedSetting& Parsed(SettingKey<kTypes...> key) const {
    return values_[key.index()].parsed;
  }
  Status Set(const Given& given, const SettingsInput& in);
  Status ApplyFile(const SettingsInput& in);
  Status ApplyEnvironment(const SettingsInput& in);
  Status ApplyApi(const SettingsInput& in);
  Status CheckTogether() const;

  std::vector<SettingValue> values_;
  std::vector<std::string> warnings_;
};

// The page docs/settings.md: every row as Markdown.
std::string SettingsMarkdown();

}  // namespace gradwire

#endif  // GRADWIRE_BASE_SETTINGS_H_
