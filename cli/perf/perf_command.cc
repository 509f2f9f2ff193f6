#include "cli/perf/perf_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cli/perf/machine_state.h"
#include "cli/perf/perf_options.h"
#include "cli/perf/perf_report.h"
#include "cli/perf/rank_bench.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

constexpr int kDefaultThreadRanks = 2;

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// This process's rank as its launcher tells it, -1 without a launcher.
int LaunchedRank() {
  for (const char* name :
       {"GRADWIRE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (*Variable(name) != '\0') return std::atoi(Variable(name));
  }
  return -1;
}

PerfRunFacts StartFacts() {
  PerfRunFacts facts = {.start_unix_s = std::time(nullptr), .netlab = Variable("GRADWIRE_NETLAB")};
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  facts.host = host;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool ours = std::strncmp(*entry, "GRADWIRE_", 9) == 0;
    const bool secret = std::strncmp(*entry, "GRADWIRE_SECRET=", 16) == 0;
    if (ours && !secret) facts.environment.emplace_back(*entry);
  }
  return facts;
}

// Where ranks share memory, before and after them and never beside them.
void Probe(const PerfRunFacts& facts, std::optional<double>* us) {
  if (facts.probed) *us = PingPongUs(SteadyClock());
}

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

// All cases on one rank; `report` is null on all but rank 0.
Status MeasureAll(gwComm_t comm, const PerfOptions& options, PerfReport* report,
                  PerfRunFacts* facts) {
  RankBench bench(comm, options, SteadyClock());
  if (const int root = options.cases[0].root; root >= bench.ranks()) {
    return Status(gwInvalidArgument,
                  fmt::format("there is no root {} among {} ranks", root, bench.ranks()));
  }
  if (report != nullptr) {
    facts->ranks = bench.ranks();
    report->PrintHeader(*facts);
  }
  for (const PerfCase& c : options.cases) {
    const StatusOr<PerfRow> row = bench.Measure(c);
    if (!row.ok()) {
      (void)gwCommAbort(comm);
      return row.status();
    }
    if (report != nullptr) report->Add(*row);
  }
  return Status::Ok();
}

int Finish(PerfReport* report, PerfRunFacts* facts) {
  Probe(*facts, &facts->ping_pong_after_us);
  facts->end_unix_s = std::time(nullptr);
  report->PrintFooter(*facts);
  const Status written = report->WriteFiles(*facts);
  if (!written.ok()) return ReportError("perf", written);
  return report->exit_code();
}

// This process is one rank of a job that somebody has launched.
int RunLaunched(const PerfOptions& options, int rank) {
  PerfRunFacts facts = StartFacts();
  // The others sleep until rank 0 has joined, and have left when it has finished.
  facts.probed = rank == 0 && facts.netlab.empty();
  Probe(facts, &facts.ping_pong_before_us);
  const gwConfig_t config = ConfigOf(options.settings);
  gwComm_t handle = nullptr;
  const gwResult_t started = gwCommInitEnv(&handle, &config);
  if (started != gwSuccess) return ReportError("perf", CheckedResult(nullptr, started));
  OwnedComm comm(handle);
  PerfReport report(options);
  const Status measured = MeasureAll(handle, options, rank == 0 ? &report : nullptr, &facts);
  comm.reset();
  if (!measured.ok()) return ReportError("perf", measured);
  return rank == 0 ? Finish(&report, &facts) : kExitOk;
}

// The ranks are threads of this process.
class ThreadJob {
 public:
  explicit ThreadJob(const PerfOptions& options)
      : options_(options),
        ranks_(options.thread_ranks > 0 ? options.thread_ranks : kDefaultThreadRanks),
        report_(options) {
    settings_ = "transport=loopback; " + options.settings;
    if (options.settings.find("transport=") != std::string::npos) settings_ = options.settings;
  }

  int Run() {
    facts_ = StartFacts();
    facts_.probed = true;
    Probe(facts_, &facts_.ping_pong_before_us);
    gwUniqueId id;
    const gwResult_t made = gwGetUniqueId(&id);
    if (made != gwSuccess) return ReportError("perf", CheckedResult(nullptr, made));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([this, id, rank] { RunRank(id, rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return failed_ ? kExitFailed : Finish(&report_, &facts_);
  }

 private:
  void RunRank(const gwUniqueId& id, int rank) {
    const gwConfig_t config = ConfigOf(settings_);
    gwComm_t handle = nullptr;
    const gwResult_t started = gwCommInitRankConfig(&handle, ranks_, id, rank, &config);
    const OwnedComm comm(handle);
    const Status status =
        started != gwSuccess
            ? CheckedResult(nullptr, started)
            : MeasureAll(handle, options_, rank == 0 ? &report_ : nullptr, &facts_);
    // The others fail because of the first: its words are enough.
    if (!status.ok() && !failed_.exchange(true)) (void)ReportError("perf", status);
  }

  const PerfOptions& options_;
  const int ranks_;
  std::string settings_;
  PerfRunFacts facts_;  // rank 0's while the threads run
  PerfReport report_;   // likewise
  std::atomic<bool> failed_{false};
};

}  // namespace

int PerfCommand(std::span<const std::string> args) {
  PerfOptions options;
  if (const auto code = ParsePerfOptions(args, &options)) return *code;
  const int rank = LaunchedRank();
  if (rank < 0) return ThreadJob(options).Run();
  if (options.thread_ranks == 0) return RunLaunched(options, rank);
  return ReportError("perf", Status(gwInvalidArgument, "--ranks is for runs without a launcher",
                                    "Here the launcher says how many ranks there are"));
}

}  // namespace gradwire
