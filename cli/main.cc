// The `gradwire` command.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

void PrintHelp() {
  fmt::print("usage: gradwire SUBCOMMAND [ARGS]      gradwire SUBCOMMAND --help says more\n\n");
  for (const Subcommand& sub : Subcommands()) fmt::print("  {:<10} {}\n", sub.name, sub.doc);
  fmt::print("  {:<10} {}\n  {:<10} {}\n", "--help", "this text", "--version", "the version");
}

int UnknownSubcommand(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Subcommand& sub : Subcommands()) names.push_back(sub.name);
  fmt::print(stderr, "gradwire: no subcommand '{}'; did you mean '{}'?\n", name,
             NearestName(name, names));
  return kExitUsage;
}

int Main(std::vector<std::string> args) {
  if (args.empty()) {
    PrintHelp();
    return kExitUsage;
  }
  const std::string name = args.front();
  args.erase(args.begin());
  if (name == "help" && !args.empty()) return Main({args.front(), "--help"});
  if (name == "help" || name == "--help" || name == "-h") {
    PrintHelp();
    return kExitOk;
  }
  if (name == "--version") {
    fmt::print("gradwire {}.{}.{}\n", GW_MAJOR, GW_MINOR, GW_PATCH);
    return kExitOk;
  }
  for (const Subcommand& sub : Subcommands()) {
    if (sub.name == name) return sub.run(args);
  }
  return UnknownSubcommand(name);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  // Whoever started this may ignore it: the system would take the ends of our children for itself.
  std::signal(SIGCHLD, SIG_DFL);
  return gradwire::CheckedExitCode(gradwire::Main({argv + 1, argv + argc}));
}
