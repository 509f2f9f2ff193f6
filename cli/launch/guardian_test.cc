#include "cli/launch/guardian.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

namespace gradwire {
namespace {

constexpr int kPatienceMs = 20'000;

// From here on this process runs as on a kernel before 5.9.
bool TakeCloseRangeAway() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// In a child: starts a guardian, tells its number, and lets go of it.
[[noreturn]] void StartAndEnd(int report) {
  if (!TakeCloseRangeAway()) _exit(2);
  {
    Guardian guardian;
    if (!guardian.Start().ok()) _exit(3);
    const pid_t pid = guardian.pid();
    if (write(report, &pid, sizeof pid) != sizeof pid) _exit(4);
  }
  _exit(0);
}

TEST(Guardian, EndsWithTheLauncherOnOldKernelsToo) {
  Pipe report;
  ASSERT_TRUE(report.Open().ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) StartAndEnd(report.write_end.get());
  report.write_end.reset();
  pid_t guardian = -1;
  ASSERT_EQ(read(report.read_end.get(), &guardian, sizeof guardian), ssize_t{sizeof guardian});
  // It is open as long as one of the two lives.
  pollfd end = {report.read_end.get(), POLLIN, 0};
  const bool ended = poll(&end, 1, kPatienceMs) == 1;
  EXPECT_TRUE(ended) << "the launcher waits for its guardian for ever";
  if (!ended) kill(guardian, SIGKILL);
  int how = -1;
  waitpid(child, &how, 0);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
}

}  // namespace
}  // namespace gradwire
