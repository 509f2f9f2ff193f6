#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/nearest_name.h"
#include "base/unique_fd.h"

namespace gradwire {
namespace {

constexpr std::array<std::string_view, 6> kLevels = {"NONE", "VERSION", "ERROR",
                                                     "WARN", "INFO",    "TRACE"};
// Bit i of LogSubsys, and last the name of all of them.
constexpr std::array<std::string_view, 9> kSubsystems = {"INIT", "COLL", "NET", "CTRL", "CODEC",
                                                         "STEP", "PLAN", "ENV", "ALL"};

constexpr int kNoRank = -1;
thread_local int thread_rank = kNoRank;

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = UpperAscii(c);
  return upper;
}

// The position of `name` in `names`, any case, or an error that suggests the nearest.
StatusOr<size_t> Find(std::span<const std::string_view> names, std::string_view name,
                      std::string_view what) {
  const std::string upper = Upper(name);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == upper) return i;
  }
  return Status(gwInvalidArgument,
                fmt::format("'{}' is no {}; accepted: {}", name, what, fmt::join(names, ", ")),
                DidYouMean(name, names));
}

std::string MachineName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return std::string(name.data(), strcspn(name.data(), "."));
}

// Who gets lines instead of a sink. Immutable and never freed: a thread may be calling it without a
// lock.
struct Receiver {
  gwLogCallback_t callback;
  void* user;
};

std::atomic<const Receiver*> current_receiver = nullptr;

// Where lines go. Immutable once it is current, and never freed: a thread may be using it without a
// lock, also in a child after fork. What the last write left behind is a hint: of several threads
// at once each sees some of it.
struct Sink {
  LogConfig config;
  std::string host;
  int fd = STDERR_FILENO;
  mutable std::atomic<bool> stuck = false;     // the last line found no room: do not wait again
  mutable std::atomic<bool> mid_line = false;  // what was written last does not end a line
};

const Sink& FirstSink() {
  static const Sink* const kSink = new Sink{.config = {}, .host = MachineName()};
  return *kSink;
}

std::atomic<const Sink*> current_sink = nullptr;

bool SameSink(const LogConfig& a, const LogConfig& b) {
  return a.file == b.file && a.host == b.host;
}

StatusOr<std::string> ExpandFileName(const std::string& pattern, const std::string& host) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    const char key = ++i < pattern.size() ? pattern[i] : '\0';
    if (key == 'h') {
      name += host;
    } else if (key == 'p') {
      name += std::to_string(getpid());
    } else if (key == '%') {
      name += '%';
    } else {
      return Status(gwInvalidArgument, fmt::format("log file name '{}' has an unknown %", pattern),
                    "Use %h for the host, %p for the process id, %% for a percent sign");
    }
  }
  return name;
}

StatusOr<int> OpenLogFile(const std::string& pattern, const std::string& host) {
  if (pattern.empty()) return STDERR_FILENO;
  StatusOr<std::string> name = ExpandFileName(pattern, host);
  if (!name.ok()) return name.status();
  const int fd = open(name->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) return fd;
  return ErrnoStatus(fmt::format("cannot open log file '{}'", *name), errno);
}

// All sinks there ever were: one per different configuration, so a process that starts many
// communicators does not collect them.
using Sinks = std::vector<std::unique_ptr<const Sink>>;

StatusOr<const Sink*> FindOrMakeSink(const LogConfig& config, Sinks* sinks) {
  for (const auto& sink : *sinks) {
    if (SameSink(sink->config, config)) return sink.get();
  }
  auto sink = std::make_unique<Sink>();
  sink->config = config;
  sink->host = config.host.empty() ? MachineName() : config.host;
  const StatusOr<int> fd = OpenLogFile(config.file, sink->host);
  if (!fd.ok()) return fd.status();
  sink->fd = *fd;
  sinks->push_back(std::move(sink));
  return sinks->back().get();
}

// Whoever logs waits at most so long for a reader, as often as that makes room: it may be the
// engine.
constexpr int64_t kMostWaitNs = 200 * kNsPerMs;

bool WaitForRoom(int fd, bool stuck) {
  const Deadline end = Deadline::After(SteadyClock(), stuck ? 0 : kMostWaitNs);
  for (;;) {
    pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready = poll(&room, 1, end.PollTimeoutMs(SteadyClock()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// A pipe or terminal anew, so that writing never waits, also where other processes fill it between
// a look at its room and the write. Invalid: neither, or not to be had.
UniqueFd WithoutWaiting(int fd) {
  struct stat about = {};
  if (fstat(fd, &about) != 0 || !(S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode))) return {};
  return UniqueFd(open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                       O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// For as long as it lives a pipe without a reader is an error of this thread's writes, and does not
// end the process.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec at_once = {};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// What could not be written: the reader of a pipe is slow, stopped, or gone.
std::string_view WriteAll(const Sink& sink, std::string_view line) {
  const NoPipeSignal no_signal;
  const UniqueFd own = WithoutWaiting(sink.fd);
  const int fd = own.valid() ? own.get() : sink.fd;
  // A pipe that has room takes so much at once, also one that would block for more.
  while (!line.empty() && WaitForRoom(fd, sink.stuck.load())) {
    const ssize_t written = write(fd, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return line;  // no place left to complain to
    line.remove_prefix(static_cast<size_t>(written));
  }
  return line;
}

// One write per line, if it is not long, so that lines of several threads and processes do not mix.
void WriteLine(const Sink& sink, std::string line) {
  line += '\n';
  const bool after_a_part = sink.mid_line.exchange(false);
  if (after_a_part) line.insert(0, 1, '\n');
  const std::string_view rest = WriteAll(sink, line);
  sink.stuck.store(!rest.empty());
  const bool nothing_written = rest.size() == line.size();
  if (rest.empty() || (nothing_written && !after_a_part)) return;
  sink.mid_line.store(true);
}

std::string MakeLine(const Sink& sink, LogLevel level, fmt::string_view format,
                     fmt::format_args args) {
  const std::string rank = thread_rank == kNoRank ? "-" : std::to_string(thread_rank);
  std::string line =
      fmt::format("{}:{}:{} [{}] GRADWIRE {} ", sink.host, getpid(), gettid(), rank, Name(level));
  fmt::vformat_to(std::back_inserter(line), format, args);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return line;
}

}  // namespace

StatusOr<LogLevel> ParseLogLevel(std::string_view text) {
  const StatusOr<size_t> found = Find(kLevels, text, "log level");
  if (!found.ok()) return found.status();
  return static_cast<LogLevel>(*found);
}

std::string_view Name(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

StatusOr<uint32_t> ParseLogSubsystems(std::string_view list) {
  const bool inverted = list.starts_with('^');
  uint32_t bits = inverted ? kAllLogSubsys : 0;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    const bool excluded = inverted || name.starts_with('^');
    if (name.starts_with('^')) name.remove_prefix(1);
    const StatusOr<size_t> found = Find(kSubsystems, name, "log subsystem");
    if (!found.ok()) return found.status();
    const uint32_t bit = *found == kSubsystems.size() - 1 ? kAllLogSubsys : 1u << *found;
    bits = excluded ? bits & ~bit : bits | bit;
  }
  return bits;
}

Status ConfigureLog(const LogConfig& config) {
  static auto* const mu = new std::mutex;
  static auto* const sinks = new Sinks;
  const std::lock_guard lock(*mu);
  const StatusOr<const Sink*> sink = FindOrMakeSink(config, sinks);
  if (!sink.ok()) return sink.status();
  current_sink.store(*sink, std::memory_order_release);
  const uint64_t level = static_cast<uint64_t>(config.level);
  log_internal::gate.store(level << 32 | config.subsystems, std::memory_order_relaxed);
  return Status::Ok();
}

void SetLogCallback(gwLogCallback_t callback, void* user) {
  static auto* const mu = new std::mutex;
  static auto* const receivers = new std::deque<Receiver>;  // one per different pair
  const std::lock_guard lock(*mu);
  if (callback == nullptr) return current_receiver.store(nullptr, std::memory_order_release);
  const auto same = [&](const Receiver& r) { return r.callback == callback && r.user == user; };
  auto found = std::find_if(receivers->begin(), receivers->end(), same);
  if (found == receivers->end())
    found = receivers->insert(receivers->end(), Receiver{callback, user});
  current_receiver.store(&*found, std::memory_order_release);
}

ScopedLogRank::ScopedLogRank(int rank) : previous_(std::exchange(thread_rank, rank)) {}
ScopedLogRank::~ScopedLogRank() { thread_rank = previous_; }

bool LogRateLimit::Allow(int64_t* left_out) {
  const std::lock_guard lock(mu_);
  const int64_t now_ns = clock_.NowNs();
  if (started_ns_ == INT64_MIN || now_ns - started_ns_ >= interval_ns_) {
    started_ns_ = now_ns;
    written_ = 0;
  }
  if (written_ >= lines_) {
    ++left_out_;
    return false;
  }
  ++written_;
  *left_out = std::exchange(left_out_, 0);
  return true;
}

namespace log_internal {

std::atomic<uint64_t> gate = uint64_t{static_cast<uint32_t>(LogLevel::kWarn)} << 32 | kAllLogSubsys;

static_assert(static_cast<int>(LogLevel::kError) == gwLogError);
static_assert(static_cast<int>(LogLevel::kTrace) == gwLogTrace);

void Write(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
  const int saved_errno = errno;
  // A thread that is cancelled in here would unwind through the catch below, which ends the
  // process.
  int cancel_state = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  try {
    const Sink* const configured = current_sink.load(std::memory_order_acquire);
    const Sink& sink = configured != nullptr ? *configured : FirstSink();
    std::string line = MakeLine(sink, level, format, args);
    if (const Receiver* const receiver = current_receiver.load(std::memory_order_acquire)) {
      receiver->callback(receiver->user, static_cast<gwLogLevel_t>(level), line.c_str());
    } else {
      WriteLine(sink, std::move(line));
    }
  } catch (...) {
    // No memory for the text, or a callback that throws: the line is lost, the caller goes on.
  }
  pthread_setcancelstate(cancel_state, nullptr);
  errno = saved_errno;
}

}  // namespace log_internal
}  // namespace gradwire
