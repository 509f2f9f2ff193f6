#include "cli/train/block_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/rng.h"

namespace gradwire {

std::vector<int> SplitSteps(int steps, int block_steps) {
  const int rounds = std::max(1, steps / block_steps);
  std::vector<int> round_steps(static_cast<size_t>(rounds), steps / rounds);
  for (int r = 0; r < steps % rounds; ++r) ++round_steps[static_cast<size_t>(r)];
  return round_steps;
}

std::vector<Block> PlanBlocks(const std::vector<int>& round_steps, int specs, uint64_t seed) {
  RandomStream random(seed);
  std::vector<Block> blocks;
  for (int round = 0; round < std::ssize(round_steps); ++round) {
    const int steps = round_steps[static_cast<size_t>(round)];
    const size_t first = blocks.size();
    for (int spec = 0; spec < specs; ++spec) {
      blocks.push_back({.round = round, .spec = spec, .steps = steps});
      // Fisher and Yates, from the front.
      std::swap(blocks.back(), blocks[first + random.Below(blocks.size() - first)]);
    }
  }
  return blocks;
}

}  // namespace gradwire
