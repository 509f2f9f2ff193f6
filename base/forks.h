// ForkGeneration: tells a child of fork from the process that made an object, without asking the
// system.
#ifndef GRADWIRE_BASE_FORKS_H_
#define GRADWIRE_BASE_FORKS_H_

#include <cstdint>

namespace gradwire {

// Differs between a process and its children, and stays the same within one. Any thread.
uint32_t ForkGeneration();

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FORKS_H_
