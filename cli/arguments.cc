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

SplitArguments SplitAtDashes(std::span<const std::string> args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  SplitArguments split{{args.begin(), dashes}, {}};
  if (dashes != args.end()) split.command.assign(dashes + 1, args.end());
  return split;
}

}  // namespace gradwire
