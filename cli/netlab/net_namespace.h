// A network namespace without a name: it exists as long as somebody holds its descriptor or lives
// in it, so a crash leaves nothing behind.
#ifndef GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_
#define GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace gradwire {

class NetNamespace {
 public:
  // A new one with nothing in it but a loopback interface that is down. The calling thread is in it
  // for a moment. gwSystemError: not allowed here (root is needed), or out of descriptors.
  static StatusOr<NetNamespace> Create();

  NetNamespace(NetNamespace&& other) noexcept;
  NetNamespace& operator=(NetNamespace&& other) noexcept;
  ~NetNamespace();

  // Close-on-exec; valid as long as this.
  int fd() const { return fd_; }

  // Calls `action` with the calling thread inside. Ends the process if it cannot come back: going
  // on in the wrong network would be worse.
  Status Inside(const std::function<Status()>& action) const;

  // Runs `program args...` inside with `input` as its standard input. `shared_fd` (-1: none) is
  // open there under the same number. gwSystemError with the program's own words if it fails.
  Status Run(const std::vector<std::string>& command, const std::string& input,
             int shared_fd = -1) const;

 private:
  explicit NetNamespace(int fd) : fd_(fd) {}

  int fd_;
};

// For the child that becomes a rank, between fork and exec: enters the namespace for good and
// shows its interfaces below /sys, where UCX looks for them. False: errno says why.
bool EnterForGood(int net_namespace_fd);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_
