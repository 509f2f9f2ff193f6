// What a child of fork is to know of its parent, and what it must not keep.
#ifndef GRADWIRE_BASE_FORKS_H_
#define GRADWIRE_BASE_FORKS_H_

#include <cstdint>

namespace gradwire {

// Differs between a process and its children, and stays the same within one: tells a child from the
// process that made an object, without asking the system. Any thread.
uint32_t ForkGeneration();

// Close-on-exec is not close-on-fork. A child that keeps a connection keeps it open, and the peer
// of a process that is killed would not hear of its end. So no child gets a copy of the file behind
// `fd`, which a UniqueFd owns, as long as that is open. What the child finds under this number is a
// socket without a peer: its copy of the owner may do to it whatever it does. (Nothing, where the
// process has no descriptor left.) Any thread; numbers from 2^20 on are inherited like others.
void KeepFromChildren(int fd);

// The number is about to be another file's, or nobody's. UniqueFd calls it. Any thread.
void StopKeepingFromChildren(int fd);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FORKS_H_
