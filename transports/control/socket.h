// Non-blocking stream sockets, for the control plane and the start.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_SOCKET_H_
#define GRADWIRE_TRANSPORTS_CONTROL_SOCKET_H_

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "base/view.h"

namespace gradwire {

// Ends a connection that `epoll` watches, and closes it; `how` as for shutdown(2). Closing alone
// would do neither where a child of fork holds a copy: the connection would live on, and its end be
// an event of every later wait. No effect on an invalid descriptor.
void CloseConnection(int epoll, int how, UniqueFd* fd);

// Non-blocking, closed on exec, kept from children of fork, no delay for small messages. `fd` is a
// TCP socket that a UniqueFd owns.
Status PrepareStream(int fd);

// What one non-blocking read gave.
struct ReadOutcome {
  enum class Kind { kData, kNothingYet, kClosed, kFailed };
  Kind kind = Kind::kNothingYet;
  ConstBytes data;  // in the caller's buffer
  int error = 0;    // errno, for kFailed
};
ReadOutcome ReadSome(int fd, Bytes buffer);

// Writes what fits now of `*text` from `*offset` on and moves the offset; once all is written, both
// are cleared. The result is errno, 0 if nothing failed (also when nothing fitted).
int WriteSome(int fd, std::string* text, size_t* offset);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_SOCKET_H_
