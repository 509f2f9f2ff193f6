// What people read about settings: `gradwire info -c` and docs/settings.md.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/settings.h"

namespace gradwire {
namespace {

constexpr std::string_view kPageHead =
    "# Settings\n"
    "\n"
    "Made from `base/settings_table.h` by `bazel run //docs:settings_markdown > "
    "docs/settings.md`; do\n"
    "not edit. A value comes from, strongest first: the API, the environment (`GRADWIRE_` and the "
    "name\n"
    "in capitals), `gradwire.toml` (the name at the top level), the default. `gradwire info -c` "
    "prints\n"
    "each value and where it came from. An unknown name in the file and a value that is not "
    "accepted are\n"
    "errors; an unknown `GRADWIRE_` variable is a warning. A `gradwire.toml`:\n"
    "\n"
    "    compress = \"qsgd(bits=8)\"\n"
    "    window = 8\n"
    "    op_timeout_ms = \"20s\"\n"
    "\n"
    "All ranks must have the same `compress`, `transport`, `algorithm`, `nonfinite`,\n"
    "`transaction`, `seed`, `slice_elems`, `window`, `heartbeat_ms`, `heartbeat_timeout_ms` and,\n"
    "over `shm`, `fragment_bytes`: the start fails where they differ. Others may differ.\n";

std::string_view ScopeTitle(SettingScope scope) {
  switch (scope) {
    case SettingScope::kCommunicator: return "For each communicator";
    case SettingScope::kProcess: return "For the process";
    case SettingScope::kLaunch: return "Set by the launcher (API or environment only)";
  }
  return {};
}

// Widest of the texts, for a column.
template <typename TextOf>
size_t Width(size_t least, const TextOf& text_of) {
  for (size_t i = 0; i < kSettings.size(); ++i) least = std::max(least, text_of(i).size());
  return least;
}

}  // namespace

std::string Settings::ShownText(size_t index) const {
  const std::string& text = values_[index].parsed.text;
  return kSettings[index].hidden && !text.empty() ? "(set)" : text;
}

std::string Settings::ToTable() const {
  const auto name = [](size_t i) { return kSettings[i].name; };
  const auto value = [this](size_t i) { return ShownText(i).empty() ? "-" : ShownText(i); };
  const auto origin = [this](size_t i) -> const std::string& { return values_[i].origin; };
  const size_t names = Width(0, name);
  const size_t texts = Width(5, value);
  const size_t origins = Width(6, origin);
  std::string table = fmt::format("# {:{}}  {:{}}  {:{}}  meaning\n", "setting", names - 2, "value",
                                  texts, "source", origins);
  for (size_t i = 0; i < kSettings.size(); ++i) {
    table += fmt::format("{:{}}  {:{}}  {:{}}  {}\n", name(i), names, value(i), texts, origin(i),
                         origins, kSettings[i].doc);
  }
  return table;
}

std::string SettingsMarkdown() {
  std::string page(kPageHead);
  for (const SettingScope scope :
       {SettingScope::kCommunicator, SettingScope::kProcess, SettingScope::kLaunch}) {
    page +=
        fmt::format("\n## {}\n\n| setting | default | accepted | meaning |\n|---|---|---|---|\n",
                    ScopeTitle(scope));
    for (const SettingRow& row : kSettings) {
      if (row.scope != scope) continue;
      const std::string text =
          row.default_text.empty() ? "" : fmt::format("`{}`", row.default_text);
      page += fmt::format("| `{}` | {} | {} | {} |\n", row.name, text, DescribeAccepted(row, {}),
                          row.doc);
    }
  }
  page += "\n## Other variables\n\nOf the environment only.\n\n| variable | meaning |\n|---|---|\n";
  for (const OtherVariable& other : kOtherVariables)
    page += fmt::format("| `{}` | {} |\n", other.name, other.doc);
  return page;
}

}  // namespace gradwire
