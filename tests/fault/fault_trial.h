// One trial: a job in some phase, something happens to one rank, and the others must hear of it.
#ifndef GRADWIRE_TESTS_FAULT_FAULT_TRIAL_H_
#define GRADWIRE_TESTS_FAULT_FAULT_TRIAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lib/sanitized.h"

namespace gradwire {

enum class Phase : uint8_t { kInit, kCollectives, kSteps, kFinalize };
inline constexpr int kPhases = 4;
const char* Name(Phase phase);

enum class Fault : uint8_t {
  kKill,   // SIGKILL
  kStop,   // SIGSTOP
  kAbort,  // gwCommAbort from a thread that is in no call
};
const char* Name(Fault fault);

struct FaultTrial {
  Fault fault = Fault::kKill;
  Phase phase = Phase::kCollectives;
  int world_size = 2;
  int victim = 0;
  std::string transport;
  int64_t delay_ns = 0;  // from the moment all ranks are in the phase
  // The victim kills itself there (base/failpoint.h), and `delay_ns` does not count. Empty: no.
  std::string failpoint;
  std::string Describe() const;
};

// A trial that is a function of the seed and of the transports of this build.
FaultTrial RandomTrial(uint64_t seed, Fault fault, Phase phase);

struct TrialResult {
  std::string complaint;        // empty: as it should be
  bool hung = false;            // a rank was still there at the hard deadline
  bool killed = false;          // it was SIGKILL that ended the victim
  int told = 0;                 // survivors with an error that names the victim
  int64_t worst_error_ns = 0;   // from the fault to a survivor's error
  int64_t worst_return_ns = 0;  // of gwCommAbort and gwCommDestroy
};

// What sanitizers make everything slower by, where all ranks share two cores.
inline constexpr int64_t kSlowness = kSanitized ? 3 : 1;
// Everything a survivor's error must be within.
inline constexpr int64_t kErrorBoundNs = kSlowness * 3'000'000'000;
inline constexpr int64_t kReturnBoundNs = 5'000'000'000;

TrialResult RunTrial(const FaultTrial& trial);

// A trial of 3 ranks for each failpoint and each rank that comes by it.
std::vector<FaultTrial> FailpointTrials();

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FAULT_FAULT_TRIAL_H_
