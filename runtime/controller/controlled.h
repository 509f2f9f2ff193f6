// Controlled: the registered tensors whose codecs the controller chooses, as Decide sees them.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_CONTROLLED_H_
#define GRADWIRE_RUNTIME_CONTROLLER_CONTROLLED_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/schedule.h"
#include "runtime/controller/model.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {

// Those of spec `auto`, in order of their ids; where there are too many for a message, the largest.
std::vector<TensorState*> Controlled(std::span<TensorState* const> tensors);
// How many are of spec `auto`, also those that are too many.
int64_t CountAutomatic(std::span<TensorState* const> tensors);
// Changes with what a plan for the tensors depends on.
uint64_t DigestOf(std::span<TensorState* const> controlled);

// What it sends on each rung, and which of them it can use, are the same on all ranks. Adds the
// candidates that it is the first to have.
JobTensor JobTensorOf(const TensorState& tensor, const AlgorithmRule& algorithms,
                      std::vector<Candidate>* candidates);
// Whether there is anything to choose.
bool IsAnyFree(const JobFacts& job);
// For people: which of so many automatic tensors are not controlled, and why; empty: all are.
std::string ScopeOf(const JobFacts& job, int64_t automatic);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_CONTROLLED_H_
