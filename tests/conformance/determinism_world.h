// Random jobs in virtual time whose bytes are compared: with delays and without, between ranks.
#ifndef GRADWIRE_TESTS_CONFORMANCE_DETERMINISM_WORLD_H_
#define GRADWIRE_TESTS_CONFORMANCE_DETERMINISM_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {

// Steps that a job runs, each with all tensors in one group.
struct StepsConfig {
  JobOptions job;
  std::vector<std::string> specs;  // by tensor
  std::vector<int64_t> sizes;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::vector<uint64_t> steps;          // their numbers
  const AlgorithmRow* plain = nullptr;  // a plain collective in each step; null: none
  int64_t plain_count = 0;
  int plain_root = 0;
  uint64_t values = 0;  // seed of the gradients
};

using Arrays = std::vector<std::vector<std::byte>>;

// What a rank holds at the end.
struct Held {
  Arrays common;  // of each step, what is the same on all ranks
  Arrays own;     // what is not, then residuals
};

struct StepsRun {
  std::vector<Held> ranks;
  std::string complaint;  // empty: every step was committed, and residuals are where they should be
};
StepsRun RunSteps(const StepsConfig& config);

// The specs of the registry, or those with feedback.
std::vector<std::string> ConformanceSpecs(bool feedback_only);

// Draws a configuration, runs it over a transport that delays, refuses and reorders, and over one
// that does not. Empty: the bytes are the same, and what all ranks have alike is.
std::string CheckTiming(uint64_t seed, uint64_t number);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_DETERMINISM_WORLD_H_
