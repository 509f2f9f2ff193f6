#include "cli/netlab/net_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "cli/launch/posix.h"

namespace gradwire {
namespace {

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

void SwitchIpv6Off() {
  for (const char* which : {"all", "default"}) {
    std::ofstream(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", which)) << "1";
  }
}

// A descriptor as the control part of a message whose only data are an errno.
struct FdMessage {
  int error = 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&error, sizeof error};
  msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
};

// In the child: a namespace, or the error that kept it from being made.
[[noreturn]] void MakeAndHandOver(int socket) {
  FdMessage message;
  int made = -1;
  if (unshare(CLONE_NEWNET) == 0) made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  message.error = errno;
  if (made >= 0) {
    SwitchIpv6Off();
    message.header.msg_control = message.control;
    message.header.msg_controllen = sizeof message.control;
    cmsghdr* part = CMSG_FIRSTHDR(&message.header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof made);
    std::memcpy(CMSG_DATA(part), &made, sizeof made);
  }
  (void)sendmsg(socket, &message.header, MSG_NOSIGNAL);
  _exit(0);
}

// Invalid: *error says why.
UniqueFd ReceiveNamespace(int socket, int* error) {
  FdMessage message;
  message.header.msg_control = message.control;
  message.header.msg_controllen = sizeof message.control;
  const ssize_t n =
      RetryOnSignal([&] { return recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC); });
  if (n != sizeof message.error) return UniqueFd();
  *error = message.error;
  const cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  if (part == nullptr || part->cmsg_type != SCM_RIGHTS) return UniqueFd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

StatusOr<NetNamespace> NetNamespace::Create() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus("cannot open a socket pair", errno);
  }
  const UniqueFd parent(ends[0]);
  UniqueFd child(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) MakeAndHandOver(child.get());
  child.reset();
  int error = EPROTO;
  UniqueFd made = ReceiveNamespace(parent.get(), &error);
  RetryOnSignal([&] { return waitpid(pid, nullptr, 0); });
  if (!made.valid()) return ErrnoStatus("cannot make a network namespace", error);
  return NetNamespace(std::move(made));
}

Status NetNamespace::CheckEntry() const {
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) _exit(EnterForGood(fd_.get()) ? 0 : errno);
  int how = 0;
  if (RetryOnSignal([&] { return waitpid(pid, &how, 0); }) < 0) {
    return ErrnoStatus("cannot wait for a process in a network namespace", errno);
  }
  const int error = WIFEXITED(how) ? WEXITSTATUS(how) : EINTR;
  return error == 0 ? Status::Ok() : ErrnoStatus("cannot enter a network namespace", error);
}

StatusOr<std::string> NetNamespace::Run(const std::vector<std::string>& command,
                                        const std::string& input, int shared_fd) const {
  const UniqueFd in(memfd_create("script", MFD_CLOEXEC));
  if (!in.valid() || !WriteFully(in.get(), input) || lseek(in.get(), 0, SEEK_SET) != 0) {
    return ErrnoStatus("cannot keep a script in memory", errno);
  }
  Pipe out;
  GW_RETURN_IF_ERROR(out.Open());
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) {
    if (setns(fd_.get(), CLONE_NEWNET) != 0) _exit(126);
    ExecTool(command, in.get(), out.write_end.get(), shared_fd);
  }
  out.write_end.reset();
  std::string said = ReadAll(out.read_end.get());
  int how = 0;
  if (RetryOnSignal([&] { return waitpid(pid, &how, 0); }) < 0) {
    return ErrnoStatus(fmt::format("cannot wait for {}", command[0]), errno);
  }
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return said;
  return Status(gwSystemError, fmt::format("{} failed: {}", fmt::join(command, " "), said),
                "Install iproute2, and see `gradwire doctor`");
}

bool EnterForGood(int net_namespace_fd) {
  if (setns(net_namespace_fd, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0) return false;
  // So that nothing mounted here shows outside. In a chroot "/" may be no mount point; then the one
  // that is mounted over is enough.
  const auto make_slave = [](const char* at) {
    return mount("none", at, nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
  };
  if (!make_slave("/") && !make_slave("/sys")) return false;
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
