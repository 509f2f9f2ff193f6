// The log: what a person reads when something is slow, wrong or unexpected. One line per event:
//
//   host:pid:tid [rank] GRADWIRE WARN peer 3 is silent for 2000 ms
//
// to standard error, a file or a callback of the user's. A line that is off costs one relaxed load
// and evaluates none of its arguments. Who logs: the first function that knows of an error, once;
// the others add context to the Status and return it. Nothing here is for data: see the ledger and
// the recorder.
#ifndef GRADWIRE_BASE_LOG_H_
#define GRADWIRE_BASE_LOG_H_

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// Each level includes the ones before it.
enum class LogLevel : int32_t { kNone, kVersion, kError, kWarn, kInfo, kTrace };

// What a line is about; a bit each. Filters kInfo and kTrace only: errors and warnings always pass.
enum class LogSubsys : uint32_t {
  kInit = 1 << 0,   // start and end of communicators
  kColl = 1 << 1,   // collectives: schedules, slices
  kNet = 1 << 2,    // transports
  kCtrl = 1 << 3,   // control plane: roster, heartbeats, revoke
  kCodec = 1 << 4,  // what compressed what
  kStep = 1 << 5,   // training steps, votes
  kPlan = 1 << 6,   // the controller's decisions
  kEnv = 1 << 7,    // settings and where they came from
};
inline constexpr uint32_t kAllLogSubsys = 0xFF;

// "none", "version", "error", "warn", "info", "trace"; any case. gwInvalidArgument otherwise.
StatusOr<LogLevel> ParseLogLevel(std::string_view text);
std::string_view Name(LogLevel level);

// A list as "INIT,NET", any case: those subsystems; "ALL". A leading ^ takes the list away from all
// of them: "^NET,CTRL". A ^ further on takes away that one: "ALL,^NET". gwInvalidArgument for other
// names.
StatusOr<uint32_t> ParseLogSubsystems(std::string_view list);

struct LogConfig {
  LogLevel level = LogLevel::kWarn;
  uint32_t subsystems = kAllLogSubsys;
  std::string file;  // empty: standard error. %h host, %p process id, %% percent
  std::string host;  // as lines show it; empty: the machine's name up to its first dot
};

// Replaces the log of this process. Lines before the first call go to standard error at kWarn.
// Any thread; others may be writing by the old configuration for a moment. Files are appended to.
// gwSystemError: the file cannot be opened; gwInvalidArgument: its name has an unknown %. Then the
// old configuration stays.
Status ConfigureLog(const LogConfig& config);

// gwSetLogCallback. It gets lines instead of the file, however the log is configured.
void SetLogCallback(gwLogCallback_t callback, void* user);

// While it lives, lines of this thread carry `rank`; else "-". Nests.
class ScopedLogRank {
 public:
  explicit ScopedLogRank(int rank);
  ~ScopedLogRank();
  ScopedLogRank(const ScopedLogRank&) = delete;
  ScopedLogRank& operator=(const ScopedLogRank&) = delete;

 private:
  int previous_;
};

namespace log_internal {

// Level in the upper half, subsystems in the lower: one load decides.
extern std::atomic<uint64_t> gate;

// Writes a line; never throws (what cannot be formatted is left out) and keeps errno.
void Write(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

template <typename... Args>
void WriteChecked(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  Write(level, format, fmt::make_format_args(args...));
}

}  // namespace log_internal

inline bool LogEnabled(LogLevel level, LogSubsys subsys) {
  const uint64_t gate = log_internal::gate.load(std::memory_order_relaxed);
  if (static_cast<uint64_t>(level) > gate >> 32) return false;
  return level <= LogLevel::kWarn || (gate & static_cast<uint32_t>(subsys)) != 0;
}

// GW_LOG(kWarn, kNet, "peer {} is silent for {} ms", peer, ms): {fmt} format, checked when
// compiled. Text from elsewhere is safe as an argument: control characters are written as spaces.
#define GW_LOG(level, subsys, ...)                                                          \
  do {                                                                                      \
    if (::gradwire::LogEnabled(::gradwire::LogLevel::level, ::gradwire::LogSubsys::subsys)) \
      ::gradwire::log_internal::WriteChecked(::gradwire::LogLevel::level, __VA_ARGS__);     \
  } while (false)

// Keeps a line that a peer or a loop can cause from flooding the log: `lines` per `interval_ns`.
//   int64_t left_out = 0;
//   if (limit.Allow(&left_out)) GW_LOG(kWarn, kNet, "bad frame ({} more like it)", left_out);
// Any thread.
class LogRateLimit {
 public:
  // `clock` outlives this.
  LogRateLimit(const Clock& clock, int64_t lines, int64_t interval_ns)
      : clock_(clock), lines_(lines), interval_ns_(interval_ns) {}

  // Whether a line may be written now; then *left_out is how many were refused since the last one.
  bool Allow(int64_t* left_out);

 private:
  const Clock& clock_;
  const int64_t lines_;
  const int64_t interval_ns_;
  std::mutex mu_;
  int64_t started_ns_ = INT64_MIN;  // of the interval; guarded by mu_, as are those below
  int64_t written_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_LOG_H_
