// The `gradwire` command.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
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
  fmt::print(stderr, "gradwire: no subcommand '{}'. {}\n", name,
             DidYouMean(name, names, "gradwire --help lists them"));
  return kExitUsage;
}

int RunSubcommand(const Subcommand& sub, std::span<const std::string> args) {
  try {
    return sub.run(args);
  } catch (const std::bad_alloc&) {
    return ReportError(sub.name, Status(gwSystemError, "out of memory"));
  }
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
    if (sub.name == name) return RunSubcommand(sub, args);
  }
  return UnknownSubcommand(name);
}

// Whoever starts this may have closed them, and the next descriptor would take the number: what is
// printed would go into a file or a pipe of ours. Opened the wrong way round, for reading and
// writing them is to fail as before.
void OccupyStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::OccupyStandardStreams();
  // Whoever started this may ignore it: the system would take the ends of our children for itself.
  std::signal(SIGCHLD, SIG_DFL);
  return gradwire::CheckedExitCode(gradwire::Main({argv + 1, argv + argc}));
}
