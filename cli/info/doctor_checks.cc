#include "cli/info/doctor_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "base/cuda/cuda_probe.h"
#include "base/json_value.h"
#include "cli/info/build_facts.h"
#include "cli/netlab/netlab.h"
#include "runtime/start/load_settings.h"
#include "runtime/start/usable_cores.h"
#include "transports/ucx/ucx_folder.h"

namespace gradwire {
namespace {

std::string_view Name(Health health) {
  switch (health) {
    case Health::kOk: return "ok";
    case Health::kWarning: return "warning";
    case Health::kFailure: return "failure";
  }
  return "unknown";
}

int64_t FreeBytes(const std::string& folder) {
  struct statvfs facts {};
  if (statvfs(folder.c_str(), &facts) != 0) return 0;
  return static_cast<int64_t>(facts.f_bavail) * static_cast<int64_t>(facts.f_frsize);
}

int64_t OpenFileLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<int64_t>(limit.rlim_cur) : 0;
}

HealthFinding CheckNetlab() {
  constexpr int64_t kAnyRate = 1'000'000'000;
  const StatusOr<Netlab> lab = Netlab::Create(1, {.rate_bits_per_s = kAnyRate});
  if (lab.ok()) return {"test network", Health::kOk, "`gradwire run --netlab` works here", ""};
  return {"test network", Health::kWarning, lab.status().ToString(),
          "Run as root, with iproute2, for --netlab; everything else works without"};
}

HealthFinding CheckCuda() {
  const int built = CudaBuildVersion(), driver = CudaDriverVersion();
  if (built == 0) return {"CUDA", Health::kOk, "not in this build; host memory only", ""};
  if (driver == 0) {
    return {"CUDA", Health::kOk, "in this build, but no driver here; host memory only", ""};
  }
  if (driver / 1000 < built / 1000) {
    return {"CUDA", Health::kWarning,
            fmt::format("built with {}, the driver is for {}", CudaVersionText(built),
                        CudaVersionText(driver)),
            "Install a newer driver, or build with an older toolkit"};
  }
  return {"CUDA", Health::kOk, fmt::format("{} devices", CudaDeviceCount()), ""};
}

}  // namespace

HealthFinding JudgeSharedMemory(const std::string& folder, int64_t free_bytes, int ranks) {
  // What UCX uses between each two ranks: 8 slots of 32 KiB and some more. Nothing else uses it.
  constexpr int64_t kPerPairBytes = 1 << 20;
  const int64_t needed = kPerPairBytes * ranks * std::max(ranks - 1, 1);
  HealthFinding finding = {
      folder, Health::kOk,
      fmt::format("{} MiB free, {} ranks need about {} MiB, for transport ucx only",
                  free_bytes >> 20, ranks, needed >> 20),
      ""};
  if (free_bytes < needed) {
    finding.health = Health::kWarning;
    finding.advice = fmt::format(
        "Where UCX is used, make it larger (docker run --shm-size=1g, mount -o remount,size=1g "
        "{}), name another folder with UCX_POSIX_DIR, or set UCX_TLS=tcp,self",
        folder);
  }
  return finding;
}

HealthFinding JudgeCores(int cores, int ranks) {
  HealthFinding finding = {"cores", Health::kOk, fmt::format("{} for {} ranks", cores, ranks), ""};
  if (ranks > cores) {
    finding.health = Health::kWarning;
    finding.advice =
        "Latencies will be those of the scheduler: run fewer ranks here, or compare only runs "
        "with equally many";
  } else if (2 * ranks > cores) {
    finding.what += ": a rank's engine thread shares a core with its compute thread";
  }
  return finding;
}

HealthFinding JudgeOpenFiles(int64_t limit, int ranks) {
  const int64_t needed = 256 + 8 * int64_t{ranks};
  HealthFinding finding = {"open files", Health::kOk, fmt::format("limit {}", limit), ""};
  if (limit < needed) {
    finding.health = Health::kFailure;
    finding.advice = fmt::format("Raise it: ulimit -n {}", std::max<int64_t>(needed, 4096));
  }
  return finding;
}

HealthFinding JudgeTransport(const std::string& name, const Status& usable, bool is_chosen) {
  if (usable.ok()) return {"transport " + name, Health::kOk, "usable", ""};
  return {"transport " + name, is_chosen ? Health::kFailure : Health::kWarning,
          usable.detail().message, usable.detail().hint};
}

std::vector<HealthFinding> JudgeSettings(const Status& loaded,
                                         const std::vector<std::string>& warnings) {
  std::vector<HealthFinding> findings;
  if (!loaded.ok()) {
    findings.push_back(
        {"settings", Health::kFailure, loaded.detail().message, loaded.detail().hint});
  }
  for (const std::string& warning : warnings) {
    findings.push_back({"settings", Health::kWarning, warning, "Correct it or unset it"});
  }
  if (findings.empty()) findings.push_back({"settings", Health::kOk, "all understood", ""});
  return findings;
}

std::vector<HealthFinding> Examine(int ranks) {
  std::vector<HealthFinding> findings;
  const StatusOr<Settings> settings = LoadSettings("debug=none", ProcessEnvironment());
  for (const TransportFact& fact : ProbeTransports(settings.ok() ? *settings : Settings())) {
    const bool is_chosen = settings.ok() && settings->Text("transport") == fact.name;
    findings.push_back(JudgeTransport(fact.name, fact.usable, is_chosen));
  }
  findings.push_back(JudgeSharedMemory(UcxParentFolder(), FreeBytes(UcxParentFolder()), ranks));
  findings.push_back(JudgeCores(std::max(static_cast<int>(UsableCores().size()), 1), ranks));
  findings.push_back(JudgeOpenFiles(OpenFileLimit(), ranks));
  findings.push_back(CheckNetlab());
  findings.push_back(CheckCuda());
  const std::vector<std::string> warnings =
      settings.ok() ? settings->warnings() : std::vector<std::string>();
  for (HealthFinding& finding : JudgeSettings(settings.status(), warnings)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::string FindingsText(const std::vector<HealthFinding>& findings) {
  std::string text;
  for (const HealthFinding& finding : findings) {
    text += fmt::format("{:<8} {}: {}\n", Name(finding.health), finding.check, finding.what);
    if (!finding.advice.empty()) text += fmt::format("{:<8} -> {}\n", "", finding.advice);
  }
  return text;
}

std::string FindingsJson(const std::vector<HealthFinding>& findings) {
  JsonValue list = JsonValue::array();
  for (const HealthFinding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"health", std::string(Name(finding.health))},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  return JsonValue{{"schema_version", 1}, {"findings", list}}.dump(1) + "\n";
}

}  // namespace gradwire
