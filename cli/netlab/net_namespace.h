// A network namespace without a name: it exists as long as somebody holds its descriptor or lives
// in it, so a crash leaves nothing behind.
#ifndef GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_
#define GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

// Everything that has to happen inside happens in child processes: a process without all rights on
// its first namespace, as in a container or a build's sandbox, could not come back to it.
class NetNamespace {
 public:
  // A new one with nothing in it but a loopback interface that is down, and without IPv6 (whose
  // neighbour discovery would show in the counters). gwSystemError: not allowed here (root is
  // needed), or out of descriptors.
  static StatusOr<NetNamespace> Create();

  // Close-on-exec; valid as long as this.
  int fd() const { return fd_.get(); }

  // Whether ranks can live in it. gwSystemError: a container that allows to make namespaces may
  // forbid to enter one with its interfaces below /sys.
  Status CheckEntry() const;

  // Runs `program args...` inside with `input` as its standard input, and returns what it writes.
  // `shared_fd` (-1: none) is open there under the same number. gwSystemError with the program's
  // own words if it fails.
  StatusOr<std::string> Run(const std::vector<std::string>& command, const std::string& input,
                            int shared_fd = -1) const;

 private:
  explicit NetNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// For the child that becomes a rank, between fork and exec: enters the namespace for good and
// shows its interfaces below /sys, where UCX looks for them. False: errno says why.
bool EnterForGood(int net_namespace_fd);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_NET_NAMESPACE_H_
