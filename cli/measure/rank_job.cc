#include "cli/measure/rank_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <latch>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "cli/measure/comm_calls.h"
#include "cli/measure/job_failure.h"
#include "cli/measure/job_ids.h"
#include "cli/measure/machine_state.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "runtime/start/load_settings.h"
#include "transports/bootstrap/launcher.h"

namespace gradwire {
namespace {

struct CommDestroyer {
  void operator()(gwComm_t comm) const { (void)gwCommDestroy(comm); }
};
using OwnedComm = std::unique_ptr<std::remove_pointer_t<gwComm_t>, CommDestroyer>;

// Refers to `settings`.
gwConfig_t ConfigOf(const std::string& settings) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  return config;
}

// Where ranks share memory, before and after them and never beside them.
void Probe(const RunFacts& facts, std::optional<double>* us) {
  if (facts.probed) *us = PingPongUs(SteadyClock(), facts.is_rank);
}

int Finish(const RankJob& job, RunFacts* facts) {
  Probe(*facts, &facts->ping_pong_after_us);
  facts->end_unix_s = std::time(nullptr);
  return job.finish(*facts);
}

// Makes communicator number i.
using CommInit = std::function<Status(int i, gwComm_t* comm)>;

// Those of one rank, gone with this.
class Communicators {
 public:
  Status Make(int count, const CommInit& init) {
    for (int i = 0; i < count; ++i) {
      gwComm_t handle = nullptr;
      GW_RETURN_IF_ERROR(init(i, &handle));
      owned_.emplace_back(handle);
      handles_.push_back(handle);
    }
    return Status::Ok();
  }

  // Rank 0 keeps the `facts`.
  Status Work(const RankJob& job, RunFacts* facts) const {
    int rank = 0;
    (void)gwCommUserRank(handles_[0], &rank);
    if (rank == 0) GW_RETURN_IF_ERROR(Note(facts));
    const Status worked = job.work(handles_, rank == 0 ? facts : nullptr);
    if (worked.ok() || !IsLogged(worked)) return worked;
    return Status(worked.code(), "the communicator has ended, as the log tells").WithRank(rank);
  }

 private:
  // What only a communicator knows.
  Status Note(RunFacts* facts) const {
    (void)gwCommCount(handles_[0], &facts->ranks);
    const auto stats = ReadStats(handles_[0]);
    if (stats.ok()) facts->one_host = stats->at("one_host").get<bool>();
    return stats.status();
  }

  // Whether `failed` is of what has ended one of them, which the library has logged. An error of
  // this rank alone, a codec that it is refused, ends them too, but is told nowhere else.
  bool IsLogged(const Status& failed) const {
    if (!LogEnabled(LogLevel::kWarn, LogSubsys::kColl)) return false;
    return std::ranges::any_of(handles_, [&](gwComm_t comm) {
      gwResult_t error = gwSuccess;
      (void)gwCommGetAsyncError(comm, &error);
      return error != gwSuccess && (error == failed.code() || IsConsequence(failed));
    });
  }

  std::vector<OwnedComm> owned_;
  std::vector<gwComm_t> handles_;
};

Status MakeAndWork(const RankJob& job, const CommInit& init, RunFacts* facts) {
  Communicators communicators;
  GW_RETURN_IF_ERROR(communicators.Make(job.communicators, init));
  return communicators.Work(job, facts);
}

// Of communicator `i`, where `all` are those of each.
std::string SettingsOf(const RankJob& job, int i, const std::string& all) {
  return i == 0 ? all : all + "; " + job.further_settings;
}

// This process is one rank of a job that somebody has launched.
int RunLaunched(const RankJob& job, int rank) {
  RunFacts facts = CurrentFacts();
  // The others sleep until rank 0 has joined, and have left when it has finished.
  facts.is_rank = true;
  facts.probed = rank == 0 && facts.netlab.empty();
  Probe(facts, &facts.ping_pong_before_us);
  const auto init = [&job](int i, gwComm_t* comm) {
    const std::string settings = SettingsOf(job, i, job.settings);
    const gwConfig_t config = ConfigOf(settings);
    return CheckedResult(nullptr, gwCommInitEnv(comm, &config));
  };
  const Status worked = MakeAndWork(job, init, &facts);
  if (!worked.ok()) return ReportError(job.subcommand, worked);
  return rank == 0 ? Finish(job, &facts) : kExitOk;
}

// The ranks are threads of this process.
class ThreadJob {
 public:
  ThreadJob(const RankJob& job, const Settings& settings)
      : job_(job), ranks_(job.thread_ranks > 0 ? job.thread_ranks : job.default_thread_ranks) {
    settings_ = job.settings;
    if (!settings.is_set("transport")) settings_ = "transport=loopback; " + settings_;
  }

  int Run() {
    facts_ = CurrentFacts();
    facts_.probed = true;
    Probe(facts_, &facts_.ping_pong_before_us);
    RunThreads();
    const Status failure = failure_.first();
    return failure.ok() ? Finish(job_, &facts_) : ReportError(job_.subcommand, failure);
  }

 private:
  // No rank begins before all are there: it would wait for those that could not be made.
  void RunThreads() {
    std::latch all_tried(1);
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(ranks_));
    try {
      for (int rank = 0; rank < ranks_; ++rank) {
        threads.emplace_back([this, &all_tried, rank] {
          all_tried.wait();
          if (all_made_) RunRank(rank);
        });
      }
      all_made_ = true;
    } catch (const std::system_error& error) {
      failure_.Note(Status(
          gwSystemError,
          fmt::format("cannot make the thread of rank {}: {}", threads.size(), error.what()),
          "Take fewer ranks, or raise the limits of threads and memory (ulimit -u, -s, -v)"));
    }
    all_tried.count_down();
    for (std::thread& thread : threads) thread.join();
  }

  void RunRank(int rank) {
    const auto init = [this, rank](int i, gwComm_t* comm) {
      const Status made = Init({.number = i, .rank = rank}, comm);
      // Here: who waits for the next id keeps this rank's communicators from their end.
      if (rank == 0 && !made.ok()) ids_.End();
      return made;
    };
    failure_.Note(MakeAndWork(job_, init, &facts_));
  }

  struct Place {
    int number;  // of the communicator
    int rank;
  };
  Status Init(const Place& place, gwComm_t* comm) {
    const StatusOr<gwUniqueId> id = place.rank == 0 ? MakeId() : ids_.Await(place.number);
    if (!id.ok()) return id.status();
    const std::string settings = SettingsOf(job_, place.number, settings_);
    const gwConfig_t config = ConfigOf(settings);
    return CheckedResult(nullptr, gwCommInitRankConfig(comm, ranks_, *id, place.rank, &config));
  }

  StatusOr<gwUniqueId> MakeId() {
    gwUniqueId id = {};
    GW_RETURN_IF_ERROR(CheckedResult(nullptr, gwGetUniqueId(&id)));
    ids_.Give(id);
    return id;
  }

  const RankJob& job_;
  const int ranks_;
  std::string settings_;
  RunFacts facts_;         // rank 0's while the threads run
  bool all_made_ = false;  // written before the ranks begin
  JobIds ids_;
  JobFailure failure_;
};

}  // namespace

int RunRanks(const RankJob& job) {
  const Environment environment = ProcessEnvironment();
  const int rank = LaunchedRank(environment);
  if (rank <= 0) {
    const Status writable = CheckOutputs(job.outputs);
    if (!writable.ok()) return ReportError(job.subcommand, writable);
  }
  // Here they are known to be options; a communicator would call them the API's.
  const StatusOr<Settings> settings = LoadSettings(job.settings, environment, "the command line");
  if (!settings.ok()) return ReportError(job.subcommand, settings.status());
  if (!HasLauncher(environment)) return ThreadJob(job, *settings).Run();
  if (job.thread_ranks == 0) return RunLaunched(job, rank);
  return ReportError(job.subcommand,
                     Status(gwInvalidArgument, "--ranks is for runs without a launcher",
                            "Here the launcher says how many ranks there are"));
}

}  // namespace gradwire
