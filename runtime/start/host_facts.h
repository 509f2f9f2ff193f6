// Which machine this process is on, as the ranks of a job tell each other.
#ifndef GRADWIRE_RUNTIME_START_HOST_FACTS_H_
#define GRADWIRE_RUNTIME_START_HOST_FACTS_H_

#include <cstdint>
#include <string>

namespace gradwire {

// Equal for all processes of one machine since it started; empty: unknown.
std::string BootId();
// Processes with equal ids see each other, share memory and a network stack.
std::string HostId();
// As the machine calls itself; empty: it does not.
std::string HostName();
// Nanoseconds since 1970.
int64_t WallNs();

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_HOST_FACTS_H_
