#include <array>

#include "cli/run.h"
#include "cli/subcommand.h"

namespace gradwire {
namespace {

constexpr std::array kSubcommands = {
    Subcommand{"run", "start N local ranks of a program", RunCommand},
};

}  // namespace

std::span<const Subcommand> Subcommands() { return kSubcommands; }

}  // namespace gradwire
