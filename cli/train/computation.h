// What stands for the computing of a training step.
#ifndef GRADWIRE_CLI_TRAIN_COMPUTATION_H_
#define GRADWIRE_CLI_TRAIN_COMPUTATION_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.h"

namespace gradwire {

enum class ComputeKind : uint8_t {
  kDevice,  // an accelerator computes, the processor is free: waits
  kHost,    // the processor computes: one thread a rank, over the gradients' memory
};

// Memory that computing reads and writes; of one length, not overlapping.
struct ComputeMemory {
  std::span<const float> in;
  std::span<float> out;
};

// One step after the other; one thread.
class Computation {
 public:
  virtual ~Computation() = default;
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  // A new step: nothing is computed yet.
  virtual void Begin() = 0;
  // Returns when `ns` of the step's computing are done; at once where they already are. What stands
  // in memory.out is a sum of what was there and memory.in.
  virtual void AdvanceTo(int64_t ns, const ComputeMemory& memory) = 0;

 protected:
  Computation() = default;
};

// kDevice: `ns` of the machine's monotonic clock since Begin, which SteadyClock shows. kHost: `ns`
// for which the thread has had a processor inside AdvanceTo, so that whoever takes the processor
// away makes the step longer.
std::unique_ptr<Computation> MakeComputation(ComputeKind kind);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_COMPUTATION_H_
