#include "base/settings_toml.h"

#include <fmt/format.h>

#include <optional>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace gradwire {
namespace {

std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  if (const auto* on = node.as_boolean()) return std::string(on->get() ? "on" : "off");
  return std::nullopt;
}

}  // namespace

StatusOr<std::vector<TomlEntry>> ReadTomlEntries(std::string_view text, std::string_view path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Status(gwInvalidArgument, fmt::format("{}:{}: not valid TOML: {}", path,
                                                 error.source().begin.line, error.description()));
  }
  std::vector<TomlEntry> entries;
  for (const auto& [key, node] : parsed.table()) {
    TomlEntry entry = {.name = std::string(key.str()),
                       .text = {},
                       .origin = fmt::format("{}:{}", path, key.source().begin.line)};
    std::optional<std::string> value = TextOf(node);
    if (!value) {
      return Status(gwInvalidArgument,
                    fmt::format("{}: '{}' is neither text nor number nor true or false",
                                entry.origin, entry.name),
                    "Settings stand at the top level, as: window = 4");
    }
    entry.text = std::move(*value);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace gradwire
