// The gradients of a rank and the room for their sums.
#ifndef GRADWIRE_CLI_TRAIN_STEP_MEMORY_H_
#define GRADWIRE_CLI_TRAIN_STEP_MEMORY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/workspace.h"
#include "cli/models/model_shapes.h"
#include "cli/train/computation.h"

namespace gradwire {

// Three times the model's memory. Tensors are numbered in forward order. One thread.
class StepMemory {
 public:
  // Gradients fixed by (seed, rank).
  Status Make(const ModelShapes& model, uint64_t seed, int rank);

  // Those of even and of odd steps differ, so that no step sees the gradients of the one before.
  const float* gradient(size_t tensor, uint64_t step) const;
  float* sum(size_t tensor) { return sums_.as<float>() + places_[tensor].offset; }
  // Expected sum of squares of its gradient.
  double energy(size_t tensor) const { return places_[tensor].energy; }

  // What computing may go over: a tensor's sum is free until the tensor is submitted.
  ComputeMemory Of(size_t tensor, uint64_t step);
  ComputeMemory OfAll(uint64_t step);

 private:
  struct Place {
    int64_t offset = 0, elems = 0;
    double energy = 0;
  };
  const float* Gradients(uint64_t step) const;

  std::vector<Place> places_;
  int64_t elems_ = 0;  // of all tensors, with what aligns them
  std::array<AlignedBuffer, 2> gradients_;
  AlignedBuffer sums_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_STEP_MEMORY_H_
