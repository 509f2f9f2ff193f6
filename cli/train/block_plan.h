// In which order the specs of a comparison take turns.
#ifndef GRADWIRE_CLI_TRAIN_BLOCK_PLAN_H_
#define GRADWIRE_CLI_TRAIN_BLOCK_PLAN_H_

#include <cstdint>
#include <vector>

namespace gradwire {

// Steps in a row with one spec. The blocks of a round are compared with each other.
struct Block {
  int round = 0;
  int spec = 0;
  int steps = 0;
};

// `steps` of each spec in rounds of about `block_steps`, at least one; as even as they can be.
std::vector<int> SplitSteps(int steps, int block_steps);

// A round for each of `round_steps`: one block of that many steps for each spec, in an order that
// `seed` shuffles anew for every round, so that what drifts in time meets all specs alike.
std::vector<Block> PlanBlocks(const std::vector<int>& round_steps, int specs, uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_BLOCK_PLAN_H_
