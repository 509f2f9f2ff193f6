#include "cli/arguments.h"

#include <algorithm>

#include "cli/subcommand.h"

namespace gradwire {

std::optional<int> ParseArguments(CLI::App* app, std::span<const std::string> args) {
  // CLI11 takes them last first.
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app->parse(reversed);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? kExitOk : kExitUsage;
  }
}

void AddJsonOption(CLI::App* app, const std::string& names, std::string* path) {
  const auto set = [path](const CLI::results_t& values) {
    // CLI11 shows an option without its value as one empty text.
    *path = values.empty() || values[0].empty() ? "-" : values[0];
    return true;
  };
  app->add_option(names, set, "write JSON to this file; without one, or with -, to stdout")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

SplitArguments SplitAtDashes(std::span<const std::string> args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  SplitArguments split{{args.begin(), dashes}, {}};
  if (dashes != args.end()) split.command.assign(dashes + 1, args.end());
  return split;
}

}  // namespace gradwire
