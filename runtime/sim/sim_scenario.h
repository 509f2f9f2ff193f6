// Random jobs for the engine's simulation: tensors, steps and operations, and one thing that goes
// wrong. All of it is a function of a seed.
#ifndef GRADWIRE_RUNTIME_SIM_SIM_SCENARIO_H_
#define GRADWIRE_RUNTIME_SIM_SIM_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {

struct ScenarioOp {
  std::vector<int> tensors;  // empty: an exact collective
  ReduceOp op = ReduceOp::kSum;
  bool scatter = false;               // a tensor by itself, where it can be
  const AlgorithmRow* row = nullptr;  // of an exact collective, as is what follows
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  int root = 0;
};

struct ScenarioStep {
  uint64_t number = 0;
  std::vector<std::string> specs;  // by tensor
  std::vector<ScenarioOp> ops;
  bool no_wait = false;
  // Whose first gradient of each group holds an infinity; where the policy makes that an error,
  // only until the caller is told.
  int infinite_rank = -1;
};

struct ScenarioTensor {
  std::string name;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
};

enum class FaultKind {
  kNone,
  kCorrupt,    // fragments with a flipped bit
  kOtherOp,    // a rank submits something else, once
  kFewerOps,   // a rank leaves out an operation, once
  kMoreOps,    // a rank submits one operation more, once
  kOtherStep,  // a rank gives its step another number, once
  kStall,      // a rank does nothing for longer than the time-out
  kKill,       // a rank dies
};
std::string ToString(FaultKind kind);

struct Scenario {
  uint64_t seed = 0;
  JobOptions job;
  std::vector<ScenarioTensor> tensors;
  std::vector<ScenarioStep> steps;
  FaultKind fault = FaultKind::kNone;
  int fault_rank = 0, fault_step = 0, fault_op = 0;
  int64_t fault_ns = 0;               // of a death, length of a stall
  std::vector<int64_t> fault_frames;  // numbers of the fragments that are damaged
  int64_t longest_pause_ns = 0;       // of a caller between two calls
};

Scenario DrawScenario(uint64_t seed);
// The same job where nothing goes wrong and everything comes at once.
Scenario WithoutTrouble(Scenario scenario);

// `elems` values of a gradient or array, the same for the same arguments.
std::vector<std::byte> DrawValues(uint64_t seed, int64_t elems, DType dtype);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_SIM_SCENARIO_H_
