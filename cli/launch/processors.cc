#include "cli/launch/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "base/service_thread.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {

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
