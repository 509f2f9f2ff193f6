#include "tests/fault/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gradwire {
namespace {

// Within the time that a trial gives its survivors.
constexpr int kIdBoundMs = 5000;

static_assert(sizeof(RankReport) <= PIPE_BUF, "reports must not be torn");

void MakePipe(std::array<int, 2>* ends) {
  if (pipe2(ends->data(), O_CLOEXEC) == 0) return;
  std::perror("pipe2");
  std::abort();
}

void Close(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

int64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

bool RankSide::ExchangeId(gwUniqueId* id) {
  if (rank != 0) {
    // A rank 0 that is stopped before it has written would be awaited forever.
    pollfd readable = {.fd = id_read_fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kIdBoundMs) != 1) return false;
    return read(id_read_fd, id, sizeof *id) == static_cast<ssize_t>(sizeof *id);
  }
  if (gwGetUniqueId(id) != gwSuccess) return false;
  for (int fd : id_write_fds) {
    // A dead reader is not this rank's concern.
    if (write(fd, id, sizeof *id) < 0) continue;
  }
  return true;
}

bool RankSide::AwaitGo() const {
  char byte = 0;
  return read(go_fd, &byte, 1) == 1;
}

bool RankSide::MayGo() const {
  pollfd reader = {.fd = go_fd, .events = POLLIN, .revents = 0};
  return poll(&reader, 1, 0) > 0;
}

void RankSide::Tell(ReportKind kind, int code, const std::string& text,
                    const std::string& call) const {
  RankReport report = {.rank = rank, .kind = kind, .code = code, .time_ns = NowNs()};
  std::strncpy(report.call, call.c_str(), sizeof report.call - 1);
  std::strncpy(report.text, text.c_str(), sizeof report.text - 1);
  if (write(report_fd, &report, sizeof report) != static_cast<ssize_t>(sizeof report)) _exit(99);
}

RankProcesses::RankProcesses(int world_size, const std::function<void(RankSide&)>& main)
    : world_size_(world_size), pids_(world_size, -1), ids_(world_size), gos_(world_size) {
  signal(SIGPIPE, SIG_IGN);
  std::fflush(nullptr);
  MakePipe(&reports_);
  for (auto& ends : ids_) MakePipe(&ends);
  for (auto& ends : gos_) MakePipe(&ends);
  for (int rank = 0; rank < world_size; ++rank) {
    pids_[rank] = fork();
    // kill would take -1 for every process.
    if (pids_[rank] < 0) std::abort();
    if (pids_[rank] == 0) RunChild(rank, main);
  }
  Close(&reports_[1]);
  for (auto& ends : ids_) {
    Close(&ends[0]);
    Close(&ends[1]);
  }
  for (auto& ends : gos_) Close(&ends[0]);
}

RankProcesses::~RankProcesses() {
  for (int rank = 0; rank < world_size_; ++rank) {
    if (pids_[rank] <= 0) continue;
    kill(pids_[rank], SIGKILL);
    (void)waitpid(pids_[rank], nullptr, 0);
  }
  Close(&reports_[0]);
  for (auto& ends : gos_) Close(&ends[1]);
}

void RankProcesses::RunChild(int rank, const std::function<void(RankSide&)>& main) {
  RankSide side;
  side.rank = rank;
  side.world_size = world_size_;
  side.report_fd = reports_[1];
  side.go_fd = gos_[rank][0];
  side.id_read_fd = ids_[rank][0];
  Close(&reports_[0]);
  // Ends that stay open elsewhere would hide a death.
  for (int r = 0; r < world_size_; ++r) {
    Close(&gos_[r][1]);
    if (r != rank) Close(&gos_[r][0]);
    if (r != rank || rank == 0) Close(&ids_[r][0]);
    if (rank == 0 && r != 0) {
      side.id_write_fds.push_back(ids_[r][1]);
    } else {
      Close(&ids_[r][1]);
    }
  }
  main(side);
  std::fflush(nullptr);
  _exit(0);
}

std::optional<RankReport> RankProcesses::Next(int64_t deadline_ns) {
  pollfd reader = {.fd = reports_[0], .events = POLLIN, .revents = 0};
  const int64_t left_ns = std::max<int64_t>(deadline_ns - NowNs(), 0);
  const timespec left = {.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
  if (ppoll(&reader, 1, &left, nullptr) <= 0) return std::nullopt;
  RankReport report;
  if (read(reports_[0], &report, sizeof report) != static_cast<ssize_t>(sizeof report)) {
    all_gone_ = true;
    return std::nullopt;
  }
  return report;
}

void RankProcesses::Signal(int rank, int signal) { kill(pids_[rank], signal); }

int RankProcesses::EndedBy(int rank) const {
  siginfo_t info = {};
  // Who is gone has closed the pipe, a moment before there is a status to read.
  const int may_wait = all_gone_ ? 0 : WNOHANG;
  // It stays a child to be waited for.
  if (waitid(P_PID, pids_[rank], &info, WEXITED | WNOWAIT | may_wait) != 0) return 0;
  return info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED ? info.si_status : 0;
}

void RankProcesses::Go(int rank) {
  // The rank may be dead already.
  if (write(gos_[rank][1], "g", 1) < 0) return;
}

}  // namespace gradwire
