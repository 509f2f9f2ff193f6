#include "tests/fault/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
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

void Make(Pipe* pipe) {
  const Status made = pipe->Open();
  if (made.ok()) return;
  std::fprintf(stderr, "%s\n", made.ToString().c_str());
  std::abort();
}

}  // namespace

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

gwComm_t RankSide::Join(const std::string& settings) {
  gwUniqueId id;
  if (!ExchangeId(&id)) {
    Tell(ReportKind::kVoid, 0, "");
    return nullptr;
  }
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  const gwResult_t result = gwCommInitRankConfig(&comm, world_size, id, rank, &config);
  if (result != gwSuccess) Tell(ReportKind::kFailed, result, gwGetLastError(nullptr));
  return comm;
}

void RankSide::Leave(gwComm_t comm) const {
  const gwResult_t result = gwCommDestroy(comm);
  if (result != gwSuccess) Tell(ReportKind::kFailed, result, "gwCommDestroy");
  Tell(ReportKind::kDone, 0, "");
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
  Make(&reports_);
  for (Pipe& pipe : ids_) Make(&pipe);
  for (Pipe& pipe : gos_) Make(&pipe);
  for (int rank = 0; rank < world_size; ++rank) {
    pids_[rank] = fork();
    // kill would take -1 for every process.
    if (pids_[rank] < 0) std::abort();
    if (pids_[rank] == 0) RunChild(rank, main);
  }
  reports_.write_end.reset();
  ids_.clear();
  for (Pipe& pipe : gos_) pipe.read_end.reset();
}

RankProcesses::~RankProcesses() {
  for (int rank = 0; rank < world_size_; ++rank) {
    if (pids_[rank] <= 0) continue;
    kill(pids_[rank], SIGKILL);
    (void)waitpid(pids_[rank], nullptr, 0);
  }
}

void RankProcesses::RunChild(int rank, const std::function<void(RankSide&)>& main) {
  RankSide side;
  side.rank = rank;
  side.world_size = world_size_;
  side.report_fd = reports_.write_end.get();
  side.go_fd = gos_[rank].read_end.get();
  side.id_read_fd = ids_[rank].read_end.get();
  reports_.read_end.reset();
  // Ends that stay open elsewhere would hide a death.
  for (int r = 0; r < world_size_; ++r) {
    gos_[r].write_end.reset();
    if (r != rank) gos_[r].read_end.reset();
    if (r != rank || rank == 0) ids_[r].read_end.reset();
    if (rank == 0 && r != 0) {
      side.id_write_fds.push_back(ids_[r].write_end.get());
    } else {
      ids_[r].write_end.reset();
    }
  }
  main(side);
  std::fflush(nullptr);
  _exit(0);
}

std::optional<RankReport> RankProcesses::Next(int64_t deadline_ns) {
  pollfd reader = {.fd = reports_.read_end.get(), .events = POLLIN, .revents = 0};
  const int64_t left_ns = std::max<int64_t>(deadline_ns - NowNs(), 0);
  const timespec left = {.tv_sec = left_ns / kNsPerSecond, .tv_nsec = left_ns % kNsPerSecond};
  if (ppoll(&reader, 1, &left, nullptr) <= 0) return std::nullopt;
  RankReport report;
  if (read(reports_.read_end.get(), &report, sizeof report) !=
      static_cast<ssize_t>(sizeof report)) {
    all_gone_ = true;
    return std::nullopt;
  }
  return report;
}

bool RankProcesses::TakeAll(int64_t deadline_ns,
                            const std::function<void(const RankReport&)>& take) {
  while (!all_gone_ && NowNs() < deadline_ns) {
    if (const std::optional<RankReport> report = Next(deadline_ns)) take(*report);
  }
  return all_gone_;
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
  if (write(gos_[rank].write_end.get(), "g", 1) < 0) return;
}

}  // namespace gradwire
