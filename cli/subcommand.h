// The table of subcommands. A new one is a file pair and a row in subcommands.cc.
#ifndef GRADWIRE_CLI_SUBCOMMAND_H_
#define GRADWIRE_CLI_SUBCOMMAND_H_

#include <span>
#include <string>
#include <string_view>

namespace gradwire {

// Exit codes that all subcommands share; further ones are a subcommand's own.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct Subcommand {
  std::string_view name;
  std::string_view doc;  // one line for `gradwire help`
  // `args` are those behind the name. Returns the exit code; writes to standard output and error.
  int (*run)(std::span<const std::string> args);
};

std::span<const Subcommand> Subcommands();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_SUBCOMMAND_H_
