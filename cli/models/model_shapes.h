// The shapes of a model's trainable tensors: what a training step exchanges, without the weights.
#ifndef GRADWIRE_CLI_MODELS_MODEL_SHAPES_H_
#define GRADWIRE_CLI_MODELS_MODEL_SHAPES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

struct TensorShape {
  std::string name;
  std::vector<int64_t> lengths;  // at least one, each at least 1

  int64_t elems() const;
};

struct ModelShapes {
  std::string name;
  std::vector<TensorShape> tensors;  // in forward order; gradients appear in the opposite one

  int64_t elems() const;
};

// The largest number of elements of a model: 4 TiB of float32.
inline constexpr int64_t kMaxModelElems = int64_t{1} << 40;

// At least one tensor, names not empty and each once, lengths at least 1, all together at most
// kMaxModelElems elements; otherwise gwInvalidArgument that names the tensor.
Status CheckShapes(const ModelShapes& model);

// The same model with the first length of every tensor of two or more dimensions cut to
// ceil(fraction * length): fewer rows, the same names and number of tensors. 0 < fraction <= 1.
ModelShapes Scaled(ModelShapes model, double fraction);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MODELS_MODEL_SHAPES_H_
