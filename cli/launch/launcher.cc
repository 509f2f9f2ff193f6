#include "cli/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/launch/end_of_job.h"
#include "cli/launch/guardian.h"
#include "cli/launch/line_relay.h"
#include "cli/launch/outlet.h"
#include "cli/launch/posix.h"
#include "cli/terminal_line.h"

namespace gradwire {
namespace {

// How long output is still read after the last rank has ended: somebody who left a rank's process
// group may hold its pipes for ever. After a time-out or a signal also how long it is written:
// perhaps nobody reads it.
constexpr int64_t kDrainNs = kNsPerSecond;

// A process that is killed closes its connections before it is gone: others may hear of it, and end
// with an error, before the system tells of the one that was killed.
constexpr int64_t kSuspicionNs = 200 * kNsPerMs;

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Takes the signals of the job as a descriptor, and gives them back. Those that whoever started
// the launcher ignores, as nohup does, stay ignored: the descriptor would have them all the same.
class JobSignals {
 public:
  JobSignals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD}) {
      if (s == SIGCHLD || !IsIgnored(s)) sigaddset(&wanted, s);
    }
    sigprocmask(SIG_BLOCK, &wanted, &before_);
    pipe_before_ = std::signal(SIGPIPE, SIG_IGN);
    fd_ = UniqueFd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~JobSignals() {
    std::signal(SIGPIPE, pipe_before_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  int fd() const { return fd_.get(); }
  // The next one, 0: none.
  int Take() const {
    signalfd_siginfo info{};
    return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
  }
  // What it does to a process that does not take it. For SIGTSTP: returns when that goes on, at
  // once where no shell could let it.
  void LetAct(int signal) const {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    sigprocmask(SIG_BLOCK, &only, nullptr);
  }

 private:
  sigset_t before_{};
  void (*pipe_before_)(int) = SIG_DFL;
  UniqueFd fd_;
};

// Lets this process open as many files as it may, of which each rank takes two, and gives the limit
// back.
class RaisedOpenFiles {
 public:
  RaisedOpenFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit raised = {before_.rlim_max, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
  }
  ~RaisedOpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

  const rlimit& before() const { return before_; }

 private:
  rlimit before_{};
};

struct Stream {
  UniqueFd source;
  Outlet* target;  // the job's
  LineRelay relay;
  std::optional<int64_t> left;  // bytes that are read yet, once the last rank has ended
};

// What the ranks wrote and nobody has read is no more than the pipe holds. Who goes on writing left
// their groups: it may be anything, for ever.
void ReadNoMoreThanThePipe(Stream* stream) {
  if (!stream->source.valid() || stream->left) return;
  stream->left = fcntl(stream->source.get(), F_GETPIPE_SZ);
}

struct Rank {
  pid_t pid = -1;
  bool alive = true;
};

class Job {
 public:
  Job(const LaunchOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        end_(clock, options.grace_ns),
        timeout_(options.timeout_ns > 0 ? Deadline::After(clock, options.timeout_ns)
                                        : Deadline::Never()) {}

  StatusOr<int> Run() {
    GW_RETURN_IF_ERROR(guardian_.Start());
    if (const Status started = StartAll(); !started.ok()) {
      exit_code_ = 0;  // the ranks that are killed now are not what went wrong
      SignalAll(SIGKILL);
      Drive();
      return started;
    }
    started_ns_ = clock_.NowNs();
    Drive();
    ClearProgress();
    return exit_code_.value_or(output_lost_ ? kLostOutputExitCode : 0);
  }

 private:
  Status StartAll();
  void Drive();
  bool OutputIsOpen() const;
  bool OutputWaits() const { return out_.waits() || err_.waits(); }
  void WaitForEvents();
  void ReadStream(Stream* stream);
  void CloseStream(Stream* stream);
  void CheckOutlets();
  void PassOn(const Stream& stream, std::string_view text);
  void ClearProgress();
  void Say(const std::string& text) {
    ClearProgress();
    err_.Add("gradwire run: " + text + "\n");
  }
  void OnSignal(int signal);
  void Interrupt(int signal);
  void Suspend();
  void ReapChildren();
  void OnRankEnded(size_t rank, const siginfo_t& how);
  struct Failure {
    size_t rank;
    siginfo_t how;
  };
  void OnRankFailed(const Failure& failure);
  void Blame(const Failure& failure);
  void SignalAll(int signal);
  void Tell(int signal) const;
  void OnTimeout();
  void CheckTimes();
  Deadline NextAction() const;
  void RunDueActions();
  std::string WhoRuns() const;
  int Alive() const;

  const LaunchOptions& options_;
  const Clock& clock_;
  JobSignals signals_;
  RaisedOpenFiles open_files_;
  Guardian guardian_;
  EndOfJob end_;
  Deadline timeout_;
  Deadline drained_ = Deadline::Never();  // set when the last rank has ended
  std::optional<int64_t> started_ns_;     // when the last rank was started
  size_t actions_done_ = 0;
  bool interrupted_ = false;
  bool timed_out_ = false;
  bool output_lost_ = false;
  Outlet out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  std::vector<Rank> ranks_;
  ToldLines told_;
  std::vector<Stream> streams_;
  TerminalLine progress_;           // of rank 0
  std::optional<int> exit_code_;    // of whatever went wrong first
  std::optional<Failure> suspect_;  // ended with an error first, unless another was killed
  Deadline blamed_ = Deadline::Never();
};

Status Job::StartAll() {
  for (size_t r = 0; r < options_.ranks.size(); ++r) {
    StatusOr<RankProcess> started =
        StartRank(options_.command, options_.ranks[r], static_cast<int>(r), open_files_.before());
    if (!started.ok()) return started.status();
    guardian_.NoteStarted(started->pid);
    ranks_.push_back({started->pid});
    const std::string prefix = r == 0 ? "" : fmt::format("[{}] ", r);
    streams_.push_back({std::move(started->out), &out_, LineRelay(prefix)});
    streams_.push_back({std::move(started->err), &err_, LineRelay(prefix, &told_)});
    if (r == 0 && options_.shows_progress) streams_.back().relay.PassProgress();
  }
  return Status::Ok();
}

int Job::Alive() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](auto& r) { return r.alive; }));
}

bool Job::OutputIsOpen() const {
  return std::any_of(streams_.begin(), streams_.end(), [](auto& s) { return s.source.valid(); });
}

void Job::Drive() {
  while (Alive() > 0 || OutputIsOpen() || OutputWaits()) {
    const bool waited = OutputWaits();
    WaitForEvents();
    CheckTimes();
    CheckOutlets();
    if (Alive() > 0) continue;
    for (Stream& stream : streams_) ReadNoMoreThanThePipe(&stream);
    // A reader may take his time, unless somebody wants the end.
    const bool patient = waited && !interrupted_ && !timed_out_;
    if (drained_.never() || patient) drained_ = Deadline::After(clock_, kDrainNs);
    if (!drained_.Expired(clock_)) continue;
    if (!OutputIsOpen()) {
      output_lost_ = output_lost_ || OutputWaits();
      return;
    }
    for (Stream& stream : streams_) CloseStream(&stream);
    CheckOutlets();
  }
}

void Job::WaitForEvents() {
  constexpr size_t kFirstStream = 3;
  std::vector<pollfd> waits = {
      {signals_.fd(), POLLIN, 0}, {out_.awaited_fd(), POLLOUT, 0}, {err_.awaited_fd(), POLLOUT, 0}};
  // -1, also that of a closed stream, is what poll takes for "not this one". What cannot be written
  // is not read either: at most a buffer for each stream is kept.
  for (const Stream& stream : streams_) {
    waits.push_back({stream.target->waits() ? -1 : stream.source.get(), POLLIN, 0});
  }
  const Deadline until =
      Earlier(Earlier(Earlier(end_.next(), blamed_), timeout_), Earlier(drained_, NextAction()));
  if (poll(waits.data(), waits.size(), until.PollTimeoutMs(clock_)) <= 0) return;
  out_.Write();
  err_.Write();
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (waits[i + kFirstStream].revents != 0) ReadStream(&streams_[i]);
  }
  while (const int signal = signals_.Take()) OnSignal(signal);
}

// What comes between takes the place of a line of progress.
void Job::PassOn(const Stream& stream, std::string_view text) {
  if (text.empty()) return;
  if (!stream.relay.passes_progress()) ClearProgress();
  stream.target->Add(text);
  if (stream.relay.passes_progress()) progress_.Write(text);
}

// What a rank that has ended left there stays.
void Job::ClearProgress() {
  if (!progress_.shows()) return;
  err_.Add(ranks_[0].alive ? kClearLine : "\n");
  progress_.Forget();
}

void Job::ReadStream(Stream* stream) {
  char buffer[64 << 10];
  const ssize_t n =
      RetryOnSignal([&] { return read(stream->source.get(), buffer, sizeof buffer); });
  if (n > 0) {
    PassOn(*stream, stream->relay.Append({buffer, static_cast<size_t>(n)}));
    if (stream->left) *stream->left -= n;
  }
  if (n <= 0 || stream->left.value_or(1) <= 0) CloseStream(stream);
}

void Job::CloseStream(Stream* stream) {
  PassOn(*stream, stream->relay.Finish());
  stream->source.reset();
}

void Job::CheckOutlets() {
  for (Outlet* outlet : {&out_, &err_}) {
    const int error = outlet->TakeError();
    if (error == 0) continue;
    if (error == EPIPE) {
      // Nobody reads any more, as in `gradwire run ... | head`: end as a single program would.
      if (!exit_code_) exit_code_ = 128 + SIGPIPE;
      end_.BeginNow();
    } else {
      output_lost_ = true;
      Say(fmt::format("cannot write standard {}: {}; the job goes on without",
                      outlet == &out_ ? "output" : "error", std::strerror(error)));
    }
  }
}

void Job::OnSignal(int signal) {
  switch (signal) {
    case SIGCHLD: return ReapChildren();
    case SIGUSR1:
    case SIGUSR2: return Tell(signal);
    case SIGTSTP: return Suspend();
    default: return Interrupt(signal);
  }
}

void Job::Interrupt(int signal) {
  if (!interrupted_) {
    interrupted_ = true;
    SignalAll(signal);
    end_.Begin();
  } else if (signal != SIGHUP) {  // of which a terminal that closes sends two
    end_.Hurry();
  }
}

// As Ctrl-Z stops a single program.
void Job::Suspend() {
  Tell(SIGSTOP);
  signals_.LetAct(SIGTSTP);
  Tell(SIGCONT);
}

void Job::ReapChildren() {
  // WNOWAIT: while it is a zombie, the number of its process group is nobody else's.
  siginfo_t how{};
  while (waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].alive && ranks_[r].pid == how.si_pid) OnRankEnded(r, how);
    }
    waitpid(how.si_pid, nullptr, 0);
    how = {};
  }
}

void Job::OnRankEnded(size_t rank, const siginfo_t& how) {
  kill(-ranks_[rank].pid, SIGKILL);  // what it has started and left behind
  guardian_.NoteEnded(ranks_[rank].pid);
  ranks_[rank].alive = false;
  const bool exited = how.si_code == CLD_EXITED;
  if (options_.board != nullptr) {
    const auto number = static_cast<int>(rank);
    if (exited) {
      options_.board->NoteExited(number, how.si_status);
    } else {
      options_.board->NoteKilled(number, how.si_status);
    }
  }
  if (!exited || how.si_status != 0) OnRankFailed({rank, how});
  // Nobody else can turn out to be the cause.
  if (suspect_ && (Alive() == 0 || interrupted_)) Blame(*suspect_);
}

void Job::OnRankFailed(const Failure& failure) {
  end_.Begin();
  if (exit_code_) return;
  if (!suspect_) {
    suspect_ = failure;
    blamed_ = Deadline::After(clock_, kSuspicionNs);
  }
  // abort() is how some programs end when another rank has failed.
  const auto& how = failure.how;
  if (how.si_code != CLD_EXITED && how.si_status != SIGABRT) Blame(failure);
}

void Job::Blame(const Failure& failure) {
  const auto& [rank, how] = failure;
  const bool exited = how.si_code == CLD_EXITED;
  exit_code_ = exited ? how.si_status : 128 + how.si_status;
  const std::string what = exited ? HowItExited(how.si_status) : HowItWasKilled(how.si_status);
  const std::string others =
      Alive() == 0 || interrupted_
          ? ""
          : fmt::format("; the others have {:g} s to report", 1e-9 * options_.grace_ns);
  Say(fmt::format("rank {} (process {}) {}{}", rank, ranks_[rank].pid, what, others));
  suspect_.reset();
  blamed_ = Deadline::Never();
}

void Job::SignalAll(int signal) {
  // Who is killed from here on is no cause.
  if (suspect_) Blame(*suspect_);
  Tell(signal);
}

void Job::Tell(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(-rank.pid, signal);
  }
}

std::string Job::WhoRuns() const {
  std::vector<size_t> running;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].alive) running.push_back(r);
  }
  return fmt::format("rank{} {}", running.size() == 1 ? "" : "s", fmt::join(running, ", "));
}

Deadline Job::NextAction() const {
  // Once all ranks have ended none is run any more.
  if (!started_ns_ || Alive() == 0 || actions_done_ == options_.actions.size())
    return Deadline::Never();
  return {*started_ns_ + options_.actions[actions_done_].at_ns};
}

void Job::RunDueActions() {
  while (NextAction().Expired(clock_)) options_.actions[actions_done_++].run();
}

void Job::OnTimeout() {
  timed_out_ = true;
  const std::string what = Alive() > 0 ? WhoRuns() + " still running" : "output still not read";
  Say(fmt::format("time-out: {} after {:g} s", what, 1e-9 * options_.timeout_ns));
  if (!exit_code_) exit_code_ = kTimeoutExitCode;
  end_.BeginNow();
}

void Job::CheckTimes() {
  RunDueActions();
  if (suspect_ && blamed_.Expired(clock_)) Blame(*suspect_);
  if (timeout_.Expired(clock_)) {
    timeout_ = Deadline::Never();
    if (Alive() > 0 || OutputWaits()) OnTimeout();
  }
  if (const int signal = end_.TakeDueSignal(); signal != 0 && Alive() > 0) {
    Say(fmt::format("sending {} to {}", signal == SIGTERM ? "SIGTERM" : "SIGKILL", WhoRuns()));
    SignalAll(signal);
  }
}

}  // namespace

StatusOr<int> Launch(const LaunchOptions& options, const Clock& clock) {
  return Job(options, clock).Run();
}

}  // namespace gradwire
