#include "cli/launch/processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "base/service_thread.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

// -1: the system does not tell.
int TopologyOf(const std::string& system, int core, const char* what) {
  std::ifstream file(fmt::format("{}/cpu{}/topology/{}", system, core, what));
  int number = -1;
  return file >> number ? number : -1;
}

}  // namespace

std::vector<int> InOrderOfTopology(std::vector<int> cores, const std::string& system) {
  std::map<int, std::pair<int, int>> places;
  for (const int core : cores) {
    places[core] = {TopologyOf(system, core, "physical_package_id"),
                    TopologyOf(system, core, "core_id")};
  }
  std::ranges::stable_sort(cores, {}, [&](int core) { return places[core]; });
  return cores;
}

std::vector<std::vector<int>> DivideCores(std::span<const int> cores, int ranks) {
  std::vector<std::vector<int>> parts(ranks);
  for (size_t i = 0; i < cores.size(); ++i) parts[i * ranks / cores.size()].push_back(cores[i]);
  return parts;
}

bool KeepTo(std::span<const int> cores) {
  const int most = cores.empty() ? 0 : *std::max_element(cores.begin(), cores.end());
  std::vector<cpu_set_t> sets(most / CPU_SETSIZE + 1);
  const size_t bytes = sets.size() * sizeof(cpu_set_t);
  for (const int core : cores) CPU_SET_S(core, bytes, sets.data());
  return sched_setaffinity(0, bytes, sets.data()) == 0;
}

Status TryToKeepTo(std::span<const int> cores) {
  int error = 0;
  StatusOr<std::thread> thread = StartServiceThread("gw-cores", [&] {
    if (!KeepTo(cores)) error = errno;
  });
  if (!thread.ok()) return thread.status();
  thread->join();
  return error == 0 ? Status() : ErrnoStatus("the system keeps none to processors", error);
}

std::vector<int> AllowedCores() {
  std::vector<int> allowed;
  // Only setting them tells which the system takes away; a thread of its own has them set.
  StatusOr<std::thread> thread = StartServiceThread("gw-cores", [&allowed] {
    std::vector<int> all(static_cast<size_t>(std::max(sysconf(_SC_NPROCESSORS_CONF), 1L)));
    std::iota(all.begin(), all.end(), 0);
    (void)KeepTo(all);
    allowed = UsableCores();
  });
  if (!thread.ok()) return UsableCores();
  thread->join();
  return allowed;
}

}  // namespace gradwire
