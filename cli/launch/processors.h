// The processors that each rank of a host keeps to.
#ifndef GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
#define GRADWIRE_CLI_LAUNCH_PROCESSORS_H_

#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace gradwire {

// `cores` with those of a package behind each other, and in it the threads of a core, whatever
// their numbers are. `system`: the kernel's folder, which need not have all of them.
std::vector<int> InOrderOfTopology(std::vector<int> cores,
                                   const std::string& system = "/sys/devices/system/cpu");

// `cores`, a multiple of `ranks`, in as many parts of neighbours, by rank.
std::vector<std::vector<int>> DivideCores(std::span<const int> cores, int ranks);

// Of the calling thread and all that it starts. False, and errno: the system does not allow it.
bool KeepTo(std::span<const int> cores);

// Whether it does, which a thread of its own finds out.
Status TryToKeepTo(std::span<const int> cores);

// Those that this process could be given, ascending, also where it is held to fewer. Where no
// thread can be made, or none may be given more, those that it is held to.
std::vector<int> AllowedCores();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
