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

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Line `number` of `text`, from 1.
std::string_view LineOf(std::string_view text, size_t number) {
  for (; number > 1 && text.find('\n') != text.npos; --number) {
    text.remove_prefix(text.find('\n') + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The name in front of a value that only quotes could make one, as in: transport = tcp. Empty: it
// is another mistake.
std::string_view NameOfUnquoted(std::string_view line) {
  constexpr std::string_view kOfNumbers = "+-0123456789_.";
  const size_t sign = line.find('=');
  if (sign == line.npos) return {};
  const std::string_view value = Trim(line.substr(sign + 1));
  const bool is_text = value.find_first_not_of(kOfNumbers) != value.npos;
  const bool begins = is_text && std::string_view("\"'[{#=").find(value[0]) == value.npos;
  // The parser may have stopped here for another reason, as at a name that comes twice.
  const bool is_value = static_cast<bool>(toml::parse(fmt::format("x = {}", value)));
  return begins && !is_value ? Trim(line.substr(0, sign)) : std::string_view();
}

// In words of ours where they help more than the parser's. The value may be a secret.
Status NotToml(const toml::parse_error& error, std::string_view text, std::string_view path) {
  const auto line = error.source().begin.line;
  const std::string_view name = NameOfUnquoted(LineOf(text, line));
  if (name.empty()) {
    return Status(gwInvalidArgument,
                  fmt::format("{}:{}: not valid TOML: {}", path, line, error.description()));
  }
  return Status(gwInvalidArgument,
                fmt::format("{}:{}: the value of '{}' is text without quotes", path, line, name),
                fmt::format("Write {} = \"...\"", name));
}

}  // namespace

StatusOr<std::vector<TomlEntry>> ReadTomlEntries(std::string_view text, std::string_view path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return NotToml(parsed.error(), text, path);
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
