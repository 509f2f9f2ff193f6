#include "cli/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/launch/launcher.h"
#include "cli/launch/processors.h"
#include "cli/launch/rank_variables.h"
#include "cli/measure/progress.h"
#include "cli/netlab/later_rates.h"
#include "cli/netlab/netlab.h"
#include "cli/netlab/rate.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "runtime/start/usable_cores.h"
#include "transports/ucx/ucx_folder.h"

namespace gradwire {
namespace {

constexpr int kMaxRanks = 1024;
constexpr char kLoopback[] = "127.0.0.1";
// Any port is free in a network of one's own.
constexpr int kNetlabRootPort = 29400;
constexpr int kNetlabMasterPort = 29500;

constexpr char kDescription[] =
    "Starts N ranks of a program on this machine, tells each who it is, passes on what they write\n"
    "and ends the others when one fails. The exit code is that of the rank that failed first,\n"
    "128 + n for one that died of signal n, 124 after a time-out.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 1M -e 64M -x 'qsgd(bits=4)'";

struct RunOptions {
  int ranks = 1;
  std::string netlab;  // the link as the user wrote it; empty: no test network
  std::vector<std::string> netlab_then;
  double timeout_s = 0;  // 0: none
  double grace_s = 15;
  std::string counters_path;
  bool leaves_unbound = false;
  std::vector<std::string> command;
};

// mpirun's -np would read as -n of "p".
Status CheckNoNp(std::span<const std::string> args) {
  const auto own_end = std::find(args.begin(), args.end(), "--");
  const auto np = std::find(args.begin(), own_end, "-np");
  if (np == own_end) return Status();
  const bool has_number = np + 1 != own_end;
  return Status(gwInvalidArgument, "the number of ranks is -n here, not -np",
                fmt::format("Write -n {}", has_number ? *(np + 1) : "N"));
}

// An exit code where the command ends here.
std::optional<int> ParseRunOptions(std::span<const std::string> args, RunOptions* options) {
  if (const Status taken = CheckNoNp(args); !taken.ok()) return ReportError("run", taken);
  CommandLine line(kDescription, "gradwire run");
  line.Add("-n,--ranks", &options->ranks, "number of ranks").Required().InRange(1, kMaxRanks);
  line.Add("--netlab", &options->netlab,
           "give each rank a network of its own, shaped to this rate (200mbit, 1gbit), and with\n"
           "this delay one way, if there is one (200mbit,delay=20ms)")
      .NotEmpty();
  line.Add("--netlab-then", &options->netlab_then,
           "SECONDS=RATE: the links' rate from then on, as 20=100mbit; repeat it")
      .OneValueEach();
  line.Add("--timeout", &options->timeout_s, "seconds until all ranks are ended; default 0: never")
      .Seconds();
  line.Add("--grace", &options->grace_s,
           "seconds the others have after a failure or a signal; default 15")
      .Seconds();
  line.Add("--counters", &options->counters_path,
           "with --netlab: write each rank's interface counters as JSON; - is stdout");
  line.AddFlag(
      "--no-bind", &options->leaves_unbound,
      "let all ranks use all processors; default: where these come out even, each rank keeps\n"
      "to its share of them");
  line.AddProgram(&options->command, "-n N [OPTIONS] -- COMMAND [ARGS]");
  return line.Parse(args);
}

// The test network, or none with a line on standard error that says why.
std::optional<Netlab> MakeNetlab(const RunOptions& options, const Link& link) {
  StatusOr<Netlab> lab = Netlab::Create(options.ranks, link);
  if (lab.ok()) return std::move(*lab);
  fmt::print(stderr, "gradwire run: NOT SHAPED to {}: the ranks talk over loopback, because {}\n",
             options.netlab, lab.status().ToString());
  return std::nullopt;
}

// `changes` gets what has been done. All arguments outlive the actions.
std::vector<TimedAction> ReshapeActions(const std::vector<LaterRate>& rates, const Netlab& lab,
                                        std::vector<RateChange>* changes) {
  std::vector<TimedAction> actions;
  for (const LaterRate& rate : rates) {
    const auto reshape = [&rate, &lab, changes] {
      const Status reshaped = lab.Reshape(rate.bits_per_s);
      if (!reshaped.ok()) {
        fmt::print(stderr, "gradwire run: NOT SHAPED to {}: {}\n", rate.text, reshaped.ToString());
        return;
      }
      const double now_s = static_cast<double>(SteadyClock().NowNs()) / kNsPerSecond;
      changes->push_back({now_s, rate.text});
    };
    actions.push_back({rate.at_ns, reshape});
  }
  return actions;
}

// That links of `rate` fall to; 0: they never do.
int64_t LeastRate(int64_t rate, const std::vector<LaterRate>& later) {
  int64_t least = 0;
  for (const LaterRate& next : later) {
    const bool falls = next.bits_per_s < rate;
    if (falls && (least == 0 || next.bits_per_s < least)) least = next.bits_per_s;
    rate = next.bits_per_s;
  }
  return least;
}

StatusOr<JobAddress> MakeJobAddress(int ranks, bool in_netlab) {
  StatusOr<std::string> secret = MakeSecret();
  if (!secret.ok()) return secret.status();
  JobAddress job{.ranks = ranks, .secret = *secret};
  if (in_netlab) {
    job.host = Netlab::Address(0);
    job.root_port = kNetlabRootPort;
    job.master_port = kNetlabMasterPort;
    return job;
  }
  job.host = kLoopback;
  for (int* port : {&job.root_port, &job.master_port}) {
    // A program may use both.
    do {
      StatusOr<int> found = FindFreePort(kLoopback);
      if (!found.ok()) return found.status();
      *port = *found;
    } while (job.master_port == job.root_port);
  }
  return job;
}

// "gradwire" in the command is this one, wherever it lies.
std::string PathForRanks() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const char* path = std::getenv("PATH");
  return PathWithFirst(self.parent_path().string(), path != nullptr ? path : "/usr/bin:/bin");
}

// By rank; all may use all where they are not bound. Uneven shares would make some ranks slow.
std::vector<std::vector<int>> CoresOfRanks(const RunOptions& options) {
  const std::vector<int> cores = InOrderOfTopology(UsableCores());
  const std::vector<std::vector<int>> unbound(options.ranks);
  const bool even = !cores.empty() && std::ssize(cores) % options.ranks == 0;
  if (options.leaves_unbound || !even) return unbound;
  std::vector<std::vector<int>> parts = DivideCores(cores, options.ranks);
  const Status allowed = TryToKeepTo(parts[0]);
  if (allowed.ok()) return parts;
  fmt::print(stderr, "gradwire run: NOT BOUND: the ranks share all processors, because {}\n",
             allowed.ToString());
  return unbound;
}

// For reports: "1gbit, then 20=100mbit".
std::string LinksText(const RunOptions& options) {
  if (options.netlab_then.empty()) return options.netlab;
  return fmt::format("{}, then {}", options.netlab, fmt::join(options.netlab_then, ", "));
}

std::vector<RankSetup> MakeRanks(const RunOptions& options, const JobAddress& job,
                                 const std::optional<Netlab>& lab, const LaunchBoard* board) {
  const std::vector<std::vector<int>> cores = CoresOfRanks(options);
  std::vector<RankSetup> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    RankSetup setup{.variables = RankVariables(job, rank)};
    setup.variables.emplace_back("PATH", PathForRanks());
    setup.variables.emplace_back(kProgressVariable, rank == 0 && ShowsProgress() ? "1" : "");
    if (board != nullptr) {
      setup.variables.emplace_back(LaunchBoard::kVariable,
                                   fmt::format("{}@{}:{}", board->Text(), job.host, job.root_port));
    }
    if (!options.netlab.empty()) {
      const std::string rate = lab ? LinksText(options) : "";
      const std::string interface = lab ? Netlab::kInterface : "lo";
      for (auto& variable : SeparateHostVariables(rank, interface, rate)) {
        setup.variables.push_back(std::move(variable));
      }
    }
    if (lab) setup.net_namespace_fd = lab->namespace_fd(rank);
    setup.cores = cores[rank];
    ranks.push_back(std::move(setup));
  }
  return ranks;
}

Status WriteCounters(const RunOptions& options, const std::optional<Netlab>& lab,
                     const std::vector<RateChange>& changes) {
  std::vector<InterfaceCounters> by_rank;
  for (int rank = 0; lab && rank < options.ranks; ++rank) {
    StatusOr<InterfaceCounters> counters = lab->Counters(rank);
    if (!counters.ok()) return counters.status();
    by_rank.push_back(*counters);
  }
  return WriteTextTo(options.counters_path,
                     CountersJson(lab ? options.netlab : "", changes, by_rank));
}

StatusOr<int> Run(const RunOptions& options) {
  std::optional<Link> link;
  if (!options.netlab.empty()) {
    const StatusOr<Link> parsed = ParseLink(options.netlab);
    if (!parsed.ok()) return parsed.status();
    link = *parsed;
    if (options.ranks > Netlab::kMaxRanks) {
      return Status(gwInvalidArgument,
                    fmt::format("--netlab takes at most {} ranks", Netlab::kMaxRanks));
    }
  } else if (!options.counters_path.empty()) {
    return Status(gwInvalidArgument, "--counters needs --netlab",
                  "Without it the ranks share one interface and cannot be told apart");
  } else if (!options.netlab_then.empty()) {
    return Status(gwInvalidArgument, "--netlab-then needs --netlab",
                  "Say with --netlab which rate the links have at first");
  }
  const StatusOr<std::vector<LaterRate>> later = ParseLaterRates(options.netlab_then);
  if (!later.ok()) return later.status();
  if (link) link->least_rate_bits_per_s = LeastRate(link->rate_bits_per_s, *later);
  GW_RETURN_IF_ERROR(CheckOutputs({&options.counters_path, 1}));
  std::optional<Netlab> lab;
  if (link) lab = MakeNetlab(options, *link);
  StatusOr<JobAddress> job = MakeJobAddress(options.ranks, lab.has_value());
  if (!job.ok()) return job.status();
  StatusOr<LaunchBoard> board = LaunchBoard::Make(options.ranks);
  if (!board.ok()) {
    fmt::print(stderr, "gradwire run: ranks will not hear of one that ends before it joins: {}\n",
               board.status().ToString());
  }
  std::vector<RateChange> changes;
  LaunchOptions launch{.command = options.command,
                       .ranks = MakeRanks(options, *job, lab, board.ok() ? &*board : nullptr),
                       .timeout_ns = static_cast<int64_t>(options.timeout_s * 1e9),
                       .grace_ns = static_cast<int64_t>(options.grace_s * 1e9),
                       .board = board.ok() ? &*board : nullptr,
                       .shows_progress = ShowsProgress()};
  if (lab) launch.actions = ReshapeActions(*later, *lab, &changes);
  StatusOr<int> exit_code = Launch(launch, SteadyClock());
  RemoveDeadUcxFolders();
  if (!exit_code.ok() || options.counters_path.empty()) return exit_code;
  const Status written = WriteCounters(options, lab, changes);
  if (written.ok() || *exit_code == kExitOk) return written.ok() ? exit_code : written;
  // How the job ended matters more.
  (void)ReportError("run", written);
  return exit_code;
}

}  // namespace

int RunCommand(std::span<const std::string> args) {
  RunOptions options;
  if (const auto code = ParseRunOptions(args, &options)) return *code;
  const StatusOr<int> exit_code = Run(options);
  return exit_code.ok() ? *exit_code : ReportError("run", exit_code.status());
}

}  // namespace gradwire
