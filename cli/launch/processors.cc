#include "cli/launch/processors.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace gradwire {

StatusOr<std::vector<std::vector<int>>> DivideCores(std::span<const int> cores, int ranks) {
  if (std::ssize(cores) < ranks) {
    return Status(
        gwInvalidArgument,
        fmt::format("--bind: {} processors cannot be divided among {} ranks", cores.size(), ranks),
        "Leave it out: the ranks then share them");
  }
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

}  // namespace gradwire
