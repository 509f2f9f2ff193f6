// The few POSIX helpers of the launcher: descriptors that close themselves, and calls that go on
// after a signal.
#ifndef GRADWIRE_CLI_LAUNCH_POSIX_H_
#define GRADWIRE_CLI_LAUNCH_POSIX_H_

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace gradwire {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close();

 private:
  int fd_ = -1;
};

// Both ends close-on-exec.
struct Pipe {
  UniqueFd read_end, write_end;
  Status Open();
};

// Repeats a system call for as long as a signal interrupts it.
template <typename Call>
auto RetryOnSignal(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// gwSystemError: "what: text of error".
Status SystemError(std::string_view what, int error);

// All of `text`, or false (errno says why).
bool WriteFully(int fd, std::string_view text);

// execvp; returns only if it failed. `command` is not empty.
void ExecCommand(const std::vector<std::string>& command);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_POSIX_H_
