// gradwire.toml as a flat list of texts; keeps the TOML library out of the rest.
#ifndef GRADWIRE_BASE_SETTINGS_TOML_H_
#define GRADWIRE_BASE_SETTINGS_TOML_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

struct TomlEntry {
  std::string name;
  std::string text;    // the value as a setting's text
  std::string origin;  // "gradwire.toml:12"
};

// The entries of `text`, sorted by name. `path` is for messages only; nothing is read from disk.
// gwInvalidArgument, with file and line: no TOML, or a value that is a table, a list or a date.
// Where text only lacks its quotes the error says so.
StatusOr<std::vector<TomlEntry>> ReadTomlEntries(std::string_view text, std::string_view path);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_SETTINGS_TOML_H_
