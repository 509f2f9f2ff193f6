#include "transports/bootstrap/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace gradwire {
namespace {

struct Row {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  std::vector<const char*> job;  // equal on all ranks of a job, different in other jobs
  // Tells of a launch by itself. Others are there without one, as Slurm's in the shell of salloc.
  bool size_is_mark = false;
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"gradwire",
       "GRADWIRE_RANK",
       "GRADWIRE_WORLD_SIZE",
       "GRADWIRE_LOCAL_RANK",
       "GRADWIRE_LOCAL_WORLD_SIZE",
       {},
       /*size_is_mark=*/true},
      // Not the restart count: agents on different hosts may count differently.
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       {"TORCHELASTIC_RUN_ID"},
       /*size_is_mark=*/true},
      {"open mpi",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}},
      // Hydra tells no job; two at once on a host need GRADWIRE_PORT, and the taken port says so.
      {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"USER"}},
      {"slurm",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       nullptr,
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return rows;
}

constexpr char kLaunchHint[] =
    "Start ranks with gradwire run, torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR "
    "and MASTER_PORT all";
constexpr int kFirstDerivedPort = 20000;  // below the ports that Linux gives to outgoing calls
constexpr int kDerivedPorts = 10000;

Status Wrong(std::string message, std::string hint = {}) {
  return Status(gwInvalidUsage,
                ErrorDetail{.message = std::move(message), .hint = std::move(hint)});
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // Empty counts as not set, as in a shell.
  bool Has(const char* name) const { return !Text(name).empty(); }
  std::string Text(const char* name) const {
    if (name == nullptr) return {};
    const auto it = environment_.find(name);
    return it == environment_.end() ? std::string() : it->second;
  }

  // The words of the settings; not set is off.
  StatusOr<bool> Switch(const char* name) const {
    std::string text = Text(name);
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* off : {"", "0", "off", "false", "no"}) {
      if (text == off) return false;
    }
    for (const char* on : {"1", "on", "true", "yes"}) {
      if (text == on) return true;
    }
    return Wrong(fmt::format("{}={} is neither on (1) nor off (0)", name, Text(name)));
  }

  // -1 where not set.
  StatusOr<int> Number(const char* name) const {
    const std::string text = Text(name);
    if (text.empty()) return -1;
    int value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < 0) {
      return Wrong(fmt::format("{}={} is not a number", name, text));
    }
    return value;
  }

 private:
  const Environment& environment_;
};

// Both set; one alone is nobody's (RANK and WORLD_SIZE are common names), except our own.
bool Speaks(const Reader& env, const Row& row) { return env.Has(row.rank) && env.Has(row.size); }

Status CheckBounds(const Row& row, const LaunchInfo& info) {
  auto contradiction = [&](const char* a, int va, const char* b, int vb) {
    return Wrong(fmt::format("{}={} contradicts {}={}", a, va, b, vb));
  };
  if (info.rank >= info.world_size) {
    return contradiction(row.rank, info.rank, row.size, info.world_size);
  }
  if (info.local_size > info.world_size) {
    return contradiction(row.local_size, info.local_size, row.size, info.world_size);
  }
  if (info.local_size >= 0 && info.local_rank >= info.local_size) {
    return contradiction(row.local_rank, info.local_rank, row.local_size, info.local_size);
  }
  return {};
}

Status ReadRow(const Reader& env, const Row& row, LaunchInfo* info) {
  info->launcher = row.launcher;
  const std::pair<const char*, int*> numbers[] = {{row.rank, &info->rank},
                                                  {row.size, &info->world_size},
                                                  {row.local_rank, &info->local_rank},
                                                  {row.local_size, &info->local_size}};
  for (const auto& [name, value] : numbers) {
    const StatusOr<int> number = env.Number(name);
    if (!number.ok()) return number.status();
    *value = *number;
  }
  return CheckBounds(row, *info);
}

// Two launchers that count the same processes must agree. Slurm may be around another launcher, and
// so may MPI be around a real torchrun; those are not compared.
Status CheckAgreement(const Reader& env, const Row& chosen) {
  const bool elastic = env.Has("TORCHELASTIC_RUN_ID");
  for (const Row& other : Rows()) {
    if (&other == &chosen || !Speaks(env, other) || other.launcher == std::string("slurm"))
      continue;
    if (chosen.launcher == std::string("gradwire")) continue;
    if (chosen.launcher == std::string("torchrun") && elastic) continue;
    const std::pair<const char*, const char*> pairs[] = {{chosen.rank, other.rank},
                                                         {chosen.size, other.size}};
    for (const auto& [a, b] : pairs) {
      if (env.Text(a) == env.Text(b)) continue;
      return Wrong(fmt::format("{}={} contradicts {}={}", a, env.Text(a), b, env.Text(b)),
                   "Unset one of them, or set GRADWIRE_RANK and GRADWIRE_WORLD_SIZE, which win");
    }
  }
  return {};
}

StatusOr<const Row*> ChooseRow(const Reader& env) {
  const Row& own = Rows()[0];
  if (env.Has(own.rank) != env.Has(own.size)) {
    const bool rank = env.Has(own.rank);
    const char* const given = rank ? own.rank : own.size;
    const char* const missing = rank ? own.size : own.rank;
    return Wrong(
        fmt::format("{} is set but {} is not", given, missing),
        fmt::format("Set {} too, or unset {} where another launcher tells", missing, given));
  }
  for (const Row& row : Rows()) {
    if (Speaks(env, row)) return &row;
  }
  for (const Row& row : Rows()) {
    if (!env.Has(row.rank) && !env.Has(row.size)) continue;
    const bool rank = env.Has(row.rank);
    return Wrong(fmt::format("{} is set but {} is not", rank ? row.rank : row.size,
                             rank ? row.size : row.rank),
                 kLaunchHint);
  }
  return Wrong(
      "no launcher's environment: neither GRADWIRE_RANK nor RANK, OMPI_COMM_WORLD_RANK, "
      "PMI_RANK or SLURM_PROCID is set",
      kLaunchHint);
}

uint64_t JobHash(const Reader& env, const Row& row) {
  Hasher hasher;
  hasher.Add("gradwire job").Add(env.Text("GRADWIRE_JOB"));
  for (const char* name : row.job) hasher.Add(env.Text(name));
  return hasher.digest();
}

bool AllOnOneHost(const Reader& env, const Row& row, const LaunchInfo& info) {
  if (row.local_size != nullptr) return info.local_size == info.world_size;
  for (const char* nodes : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
    if (env.Has(nodes)) return env.Text(nodes) == "1";
  }
  return false;
}

// The host of rank 0 as the launcher tells it; empty: it does not.
StatusOr<std::string> LauncherHost(const Reader& env, const Row& row, const LaunchInfo& info) {
  // Also where a name is given: nobody else has to reach it, so nothing else has to listen.
  if (AllOnOneHost(env, row, info)) return std::string("127.0.0.1");
  if (row.launcher == std::string("torchrun")) return env.Text("MASTER_ADDR");
  if (row.launcher != std::string("slurm")) return std::string();
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (!env.Has(list)) continue;
    StatusOr<std::string> host = FirstSlurmHost(env.Text(list));
    if (host.ok()) return host;
    return Wrong(fmt::format("{}: {}", list, host.status().detail().message));
  }
  return std::string();
}

// GRADWIRE_PORT=0 is the setting's default: no choice made.
bool PortIsChosen(const Reader& env) {
  return env.Has("GRADWIRE_PORT") && env.Text("GRADWIRE_PORT") != "0";
}

StatusOr<int> LauncherPort(const Reader& env, const Row& row) {
  const char* name = PortIsChosen(env) ? "GRADWIRE_PORT" : "MASTER_PORT";
  const bool master = name == std::string("MASTER_PORT");
  if (!env.Has(name) || (master && row.launcher != std::string("torchrun"))) {
    return kFirstDerivedPort + static_cast<int>(JobHash(env, row) % kDerivedPorts);
  }
  const StatusOr<int> port = ParsePort(env.Text(name));
  if (!port.ok()) return Wrong(fmt::format("{}: {}", name, port.status().detail().message));
  if (!master) return *port;
  return *port < 65535 ? *port + 1 : *port - 1;
}

// GRADWIRE_ROOT, where set: host:port, or host alone with GRADWIRE_PORT.
StatusOr<std::optional<HostPort>> ExplicitRoot(const Reader& env) {
  const std::string text = env.Text("GRADWIRE_ROOT");
  if (text.empty()) return std::optional<HostPort>();
  const bool is_host_alone = text.find(':') == std::string::npos;
  const StatusOr<HostPort> root = ParseHostPort(
      is_host_alone && PortIsChosen(env) ? fmt::format("{}:{}", text, env.Text("GRADWIRE_PORT"))
                                         : text);
  if (!root.ok()) {
    return Wrong(fmt::format("GRADWIRE_ROOT: {}", root.status().detail().message),
                 root.status().detail().hint +
                     (is_host_alone ? "; or set the port by GRADWIRE_PORT" : ""))
        .WithSetting("root");
  }
  if (PortIsChosen(env) && env.Text("GRADWIRE_PORT") != std::to_string(root->port)) {
    return Wrong(fmt::format("GRADWIRE_ROOT={} contradicts GRADWIRE_PORT={}", text,
                             env.Text("GRADWIRE_PORT")))
        .WithSetting("root");
  }
  return std::optional<HostPort>(*root);
}

StatusOr<HostPort> FindRoot(const Reader& env, const Row& row, const LaunchInfo& info) {
  const StatusOr<std::optional<HostPort>> given = ExplicitRoot(env);
  if (!given.ok()) return given.status();
  if (given->has_value()) return **given;
  StatusOr<std::string> host = LauncherHost(env, row, info);
  if (!host.ok()) return host.status();
  if (host->empty()) {
    const char* missing = row.launcher == std::string("torchrun") ? "MASTER_ADDR" : "GRADWIRE_ROOT";
    return Wrong(
        fmt::format("{} does not tell where rank 0 is: {} is not set", row.launcher, missing),
        "Set GRADWIRE_ROOT=host:port to an address of rank 0's host");
  }
  const StatusOr<int> port = LauncherPort(env, row);
  if (!port.ok()) return port.status();
  return HostPort{std::move(*host), *port};
}

// "PLACE@ROOT" of `gradwire run`. One of another root is that of a job around this one.
std::string BoardOf(const Reader& env) {
  const std::string text = env.Text("GRADWIRE_LAUNCH_BOARD");
  const size_t at = text.find('@');
  const bool ours = at != std::string::npos && text.substr(at + 1) == env.Text("GRADWIRE_ROOT");
  return ours ? text.substr(0, at) : "";
}

}  // namespace

bool HasLauncher(const Environment& environment) {
  const Reader env(environment);
  return std::any_of(Rows().begin(), Rows().end(), [&](const Row& row) {
    return env.Has(row.rank) || (row.size_is_mark && env.Has(row.size));
  });
}

int LaunchedRank(const Environment& environment) {
  const Reader env(environment);
  for (const Row& row : Rows()) {
    if (!env.Has(row.rank)) continue;
    const StatusOr<int> rank = env.Number(row.rank);
    return rank.ok() ? *rank : -1;
  }
  return -1;
}

StatusOr<LaunchInfo> DetectLauncher(const Environment& environment) {
  const Reader env(environment);
  const StatusOr<const Row*> row = ChooseRow(env);
  if (!row.ok()) return row.status();
  GW_RETURN_IF_ERROR(CheckAgreement(env, **row));
  LaunchInfo info;
  GW_RETURN_IF_ERROR(ReadRow(env, **row, &info));
  if (info.world_size > 1) {
    StatusOr<HostPort> root = FindRoot(env, **row, info);
    if (!root.ok()) return root.status();
    info.root = std::move(*root);
  }
  info.job = Hasher().Add(JobHash(env, **row)).Add(info.root.host).Add(info.root.port).digest();
  info.secret = env.Text("GRADWIRE_SECRET");
  const StatusOr<bool> insecure = env.Switch("GRADWIRE_INSECURE");
  if (!insecure.ok()) return insecure.status();
  info.insecure = *insecure;
  info.board = BoardOf(env);
  return info;
}

}  // namespace gradwire
