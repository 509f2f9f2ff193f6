#include "cli/measure/library_options.h"

#include <fmt/format.h>

#include <regex>
#include <string_view>

#include "base/settings_table.h"

namespace gradwire {

void AddLibraryOptions(CommandLine* line, LibraryOptions* options) {
  line->Add("--algorithm", &options->algorithm,
            "of exact all-reduce; see `gradwire info`; default auto");
  line->Add("--transport", &options->transport,
            "see `gradwire info`; default: the best, and loopback of threads");
  line->Add("--slice", &options->slice_elems, "elements of a slice; default: chosen").Size();
  line->Add("--set", &options->settings, "NAME=VALUE of any setting; may be repeated")
      .OneValueEach();
  line->Add("--record", &options->record_path,
            "write the messages really sent to FILE.RANK, a JSON line each");
}

std::string SettingsText(const LibraryOptions& options) {
  std::vector<std::string> pairs = options.settings;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) pairs.push_back(fmt::format("{}={}", name, value));
  };
  add("algorithm", options.algorithm);
  add("transport", options.transport);
  add("record_messages", options.record_path);
  if (options.slice_elems > 0) add("slice_elems", fmt::to_string(options.slice_elems));
  return fmt::format("{}", fmt::join(pairs, "; "));
}

std::string CommandLineText(std::string_view program, std::span<const std::string> args) {
  std::string text(program);
  for (std::string arg : args) {
    for (const SettingRow& row : kSettings) {
      if (!row.hidden) continue;
      const std::regex value(fmt::format(R"(\b{}\s*=[^;]*)", row.name));
      arg = std::regex_replace(arg, value, fmt::format("{}=(set)", row.name));
    }
    text += ' ' + arg;
  }
  return text;
}

std::string RecordOfRankZero(const LibraryOptions& options) {
  return options.record_path.empty() ? "" : options.record_path + ".0";
}

}  // namespace gradwire
