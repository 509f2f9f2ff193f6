// The processors that each rank of a host keeps to.
#ifndef GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
#define GRADWIRE_CLI_LAUNCH_PROCESSORS_H_

#include <span>
#include <vector>

namespace gradwire {

// `cores`, at least `ranks`, in as many parts of neighbours, by rank; where they do not come out
// even some have one more.
std::vector<std::vector<int>> DivideCores(std::span<const int> cores, int ranks);

// Of the calling thread and all that it starts. False, and errno: the system does not allow it.
bool KeepTo(std::span<const int> cores);

// Those that this process could be given, ascending, also where it is held to fewer. Where no
// thread can be made, those that it is held to.
std::vector<int> AllowedCores();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
