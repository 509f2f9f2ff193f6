// Ranks as processes that a test may kill, stop and watch. The test's process has no threads and
// does not use gradwire itself: its children are forked from it.
#ifndef GRADWIRE_TESTS_FAULT_RANK_PROCESSES_H_
#define GRADWIRE_TESTS_FAULT_RANK_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// The same clock in all processes.
inline int64_t NowNs() { return SteadyClock().NowNs(); }

enum class ReportKind : int32_t {
  kReady,   // the phase begins in which something may happen to a rank
  kError,   // `code` and `text` are what a call returned
  kTimed,   // `code` milliseconds were spent in the call that `text` names
  kDone,    // this rank is through
  kVoid,    // this rank could not take part: rank 0 ended or stood still before it gave the id away
  kFailed,  // a check of the rank's own failed
};

struct RankReport {
  int32_t rank = 0;
  ReportKind kind = ReportKind::kDone;
  int32_t code = 0;
  int64_t time_ns = 0;
  char call[40] = {};   // kError: the operation that failed, as errors name it
  char text[900] = {};  // with the rest less than what a pipe takes at once
};

// A rank's end of the harness.
class RankSide {
 public:
  int rank = 0, world_size = 0;
  int go_fd = -1;  // the test's Go arrives here
  int id_read_fd = -1, report_fd = -1;
  std::vector<int> id_write_fds;  // rank 0's, to the others

  // Rank 0 makes the unique id, the others get it. False: there is none to be had within seconds.
  bool ExchangeId(gwUniqueId* id);
  // Joins the others with these settings. Null: it has told why not, as kVoid or kFailed.
  gwComm_t Join(const std::string& settings);
  // Destroys `comm` and tells that this rank is through.
  void Leave(gwComm_t comm) const;
  // Until the test says Go. False: the test is gone.
  bool AwaitGo() const;
  // Whether AwaitGo would return at once.
  bool MayGo() const;
  void Tell(ReportKind kind, int code, const std::string& text, const std::string& call = "") const;
};

class RankProcesses {
 public:
  // Forks world_size processes that run `main` and exit.
  RankProcesses(int world_size, const std::function<void(RankSide&)>& main);
  // Kills what is left.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // The next report of any rank; nothing at the deadline, or at the end of all ranks.
  std::optional<RankReport> Next(int64_t deadline_ns);
  // Gives every report to `take` until all ranks are gone. False: at the deadline some are not.
  bool TakeAll(int64_t deadline_ns, const std::function<void(const RankReport&)>& take);
  // True once no process can report any more.
  bool all_gone() const { return all_gone_; }
  void Signal(int rank, int signal);
  pid_t pid(int rank) const { return pids_[rank]; }
  // The signal that has ended a rank; 0: none has.
  int EndedBy(int rank) const;
  void Go(int rank);

 private:
  [[noreturn]] void RunChild(int rank, const std::function<void(RankSide&)>& main);

  const int world_size_;
  std::vector<pid_t> pids_;
  std::vector<Pipe> ids_, gos_;  // by rank
  Pipe reports_;
  bool all_gone_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FAULT_RANK_PROCESSES_H_
