// What all subcommands do with their command lines.
#ifndef GRADWIRE_CLI_ARGUMENTS_H_
#define GRADWIRE_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gradwire {

// Parses `args`. An exit code, with help or the error already printed, where the subcommand is to
// end at once; nothing where it is to go on.
std::optional<int> ParseArguments(CLI::App* app, std::span<const std::string> args);

// Adds --json to a subcommand: `*path` stays empty without it, and is "-" (standard output) where
// no file follows. `names`: "--json", perhaps with a short name.
void AddJsonOption(CLI::App* app, const std::string& names, std::string* path);

// "OPTIONS -- COMMAND...": both halves. Without "--" the second is empty.
struct SplitArguments {
  std::vector<std::string> options, command;
};
SplitArguments SplitAtDashes(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ARGUMENTS_H_
