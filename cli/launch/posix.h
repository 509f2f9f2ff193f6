// The few POSIX helpers of the launcher: calls that go on after a signal, and exec.
#ifndef GRADWIRE_CLI_LAUNCH_POSIX_H_
#define GRADWIRE_CLI_LAUNCH_POSIX_H_

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

namespace gradwire {

// Repeats a system call for as long as a signal interrupts it.
template <typename Call>
auto RetryOnSignal(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// All of `text`, or false (errno says why).
bool WriteFully(int fd, std::string_view text);

// Until the other end is closed.
std::string ReadAll(int fd);

// execvp; returns only if it failed. `command` is not empty.
void ExecCommand(const std::vector<std::string>& command);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_POSIX_H_
