// Which cores threads may run on, and how many those of several processes are together.
#ifndef GRADWIRE_RUNTIME_START_USABLE_CORES_H_
#define GRADWIRE_RUNTIME_START_USABLE_CORES_H_

#include <span>
#include <string>
#include <vector>

namespace gradwire {

// The cores that the calling thread may run on (taskset, cpusets), ascending. Empty: the system
// does not tell.
std::vector<int> UsableCores();

// Cores as text: hexadecimal digits, each of four cores, those of 0 to 3 first.
std::string EncodeCores(std::span<const int> cores);
// In how many of these texts' cores there is at least one of them. What is no digit is no core.
int CountCores(std::span<const std::string> texts);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_USABLE_CORES_H_
