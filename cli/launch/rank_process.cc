#include "cli/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cli/launch/posix.h"
#include "cli/launch/processors.h"
#include "cli/netlab/net_namespace.h"

namespace gradwire {
namespace {

// What keeps a child from becoming its command; travels through a pipe that a successful exec
// closes.
struct StartFailure {
  enum class Stage : int { kNetwork, kProcessors, kExec } stage = Stage::kExec;
  int error = 0;
};

[[noreturn]] void Fail(int fd, StartFailure::Stage stage) {
  const StartFailure failure{stage, errno};
  (void)!write(fd, &failure, sizeof failure);
  _exit(127);
}

void RedirectStandardStreams(int rank, int out, int err) {
  if (rank != 0 || isatty(STDIN_FILENO)) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
  }
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
}

void DefaultSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
}

struct ChildArgs {
  const std::vector<std::string>& command;
  const RankSetup& setup;
  int rank;
  const rlimit& open_files;
  pid_t launcher;
  int out, err, failure;
};

[[noreturn]] void BecomeRank(const ChildArgs& args) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != args.launcher) _exit(127);  // it died before it could take us along
  RedirectStandardStreams(args.rank, args.out, args.err);
  if (args.setup.net_namespace_fd >= 0 && !EnterForGood(args.setup.net_namespace_fd)) {
    Fail(args.failure, StartFailure::Stage::kNetwork);
  }
  if (!args.setup.cores.empty() && !KeepTo(args.setup.cores)) {
    Fail(args.failure, StartFailure::Stage::kProcessors);
  }
  for (const auto& [name, value] : args.setup.variables) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  setrlimit(RLIMIT_NOFILE, &args.open_files);
  DefaultSignals();
  ExecCommand(args.command);
  Fail(args.failure, StartFailure::Stage::kExec);
}

Status DescribeFailure(const StartFailure& failure, const std::string& program) {
  if (failure.stage == StartFailure::Stage::kNetwork) {
    return ErrnoStatus("cannot enter the rank's network namespace", failure.error);
  }
  if (failure.stage == StartFailure::Stage::kProcessors) {
    return ErrnoStatus("cannot keep the rank to its processors", failure.error);
  }
  return Status(gwInvalidArgument,
                fmt::format("cannot start '{}': {}", program, std::strerror(failure.error)),
                failure.error == ENOENT ? "Is it spelt right, and in PATH?" : "");
}

}  // namespace

StatusOr<RankProcess> StartRank(const std::vector<std::string>& command, const RankSetup& setup,
                                int rank, const rlimit& open_files) {
  Pipe out, err, failed;
  for (Pipe* pipe : {&out, &err, &failed}) GW_RETURN_IF_ERROR(pipe->Open());
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("cannot fork", errno);
  if (pid == 0) {
    BecomeRank({command, setup, rank, open_files, launcher, out.write_end.get(),
                err.write_end.get(), failed.write_end.get()});
  }
  setpgid(pid, pid);  // also here: whoever comes first
  failed.write_end.reset();
  StartFailure failure;
  const ssize_t n =
      RetryOnSignal([&] { return read(failed.read_end.get(), &failure, sizeof failure); });
  if (n == sizeof failure) {
    RetryOnSignal([&] { return waitpid(pid, nullptr, 0); });
    return DescribeFailure(failure, command[0]);
  }
  return RankProcess{pid, std::move(out.read_end), std::move(err.read_end)};
}

}  // namespace gradwire
