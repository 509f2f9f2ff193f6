#include "cli/netlab/net_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/launch/posix.h"

namespace gradwire {
namespace {

constexpr char kOwnNamespace[] = "/proc/self/ns/net";

// In the child: the two ends become standard input and standard output and error.
[[noreturn]] void ExecTool(const std::vector<std::string>& command, int input, int output,
                           int shared_fd) {
  if (shared_fd >= 0) fcntl(shared_fd, F_SETFD, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);  // a user's path lacks the sbin folders
  ExecCommand(command);
  const std::string text = fmt::format("cannot start {}: {}\n", command[0], std::strerror(errno));
  (void)!write(STDERR_FILENO, text.data(), text.size());
  _exit(127);
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = RetryOnSignal([&] { return read(fd, buffer, sizeof buffer); })) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

StatusOr<NetNamespace> NetNamespace::Create() {
  UniqueFd own(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!own.valid()) return ErrnoStatus("cannot open the own network namespace", errno);
  if (unshare(CLONE_NEWNET) != 0) return ErrnoStatus("cannot make a network namespace", errno);
  UniqueFd made(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  const int error = errno;
  if (setns(own.get(), CLONE_NEWNET) != 0) std::abort();
  if (!made.valid()) return ErrnoStatus("cannot open a network namespace", error);
  return NetNamespace(made.release());
}

NetNamespace::NetNamespace(NetNamespace&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

NetNamespace& NetNamespace::operator=(NetNamespace&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NetNamespace::~NetNamespace() {
  if (fd_ >= 0) close(fd_);
}

Status NetNamespace::Inside(const std::function<Status()>& action) const {
  UniqueFd own(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!own.valid()) return ErrnoStatus("cannot open the own network namespace", errno);
  if (setns(fd_, CLONE_NEWNET) != 0) return ErrnoStatus("cannot enter a network namespace", errno);
  Status status = action();
  if (setns(own.get(), CLONE_NEWNET) != 0) std::abort();
  return status;
}

Status NetNamespace::Run(const std::vector<std::string>& command, const std::string& input,
                         int shared_fd) const {
  Pipe in, out;
  GW_RETURN_IF_ERROR(in.Open());
  GW_RETURN_IF_ERROR(out.Open());
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) {
    if (setns(fd_, CLONE_NEWNET) != 0) _exit(126);
    ExecTool(command, in.read_end.get(), out.write_end.get(), shared_fd);
  }
  in.read_end.reset();
  out.write_end.reset();
  // The scripts are far smaller than a pipe's buffer, so this cannot block for ever.
  WriteFully(in.write_end.get(), input);
  in.write_end.reset();
  const std::string said = ReadAll(out.read_end.get());
  int how = 0;
  RetryOnSignal([&] { return waitpid(pid, &how, 0); });
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return Status::Ok();
  return Status(gwSystemError, fmt::format("{} failed: {}", fmt::join(command, " "), said),
                "Install iproute2, and see `gradwire doctor`");
}

bool EnterForGood(int net_namespace_fd) {
  if (setns(net_namespace_fd, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0) return false;
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return false;
  // Whoever asks for his memory limit finds it where it was.
  const UniqueFd cgroup(open("/sys/fs/cgroup", O_PATH | O_CLOEXEC));
  if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return false;
  if (cgroup.valid()) {
    const std::string source = fmt::format("/proc/self/fd/{}", cgroup.get());
    (void)mount(source.c_str(), "/sys/fs/cgroup", nullptr, MS_BIND | MS_REC, nullptr);
  }
  return true;
}

}  // namespace gradwire
