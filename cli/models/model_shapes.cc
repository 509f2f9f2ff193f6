#include "cli/models/model_shapes.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

namespace gradwire {
namespace {

Status WrongTensor(const TensorShape& tensor, std::string_view what) {
  return Status(gwInvalidArgument, fmt::format("tensor '{}' {}", tensor.name, what));
}

// Adds the tensor's elements to `*total`.
Status CountElems(const TensorShape& tensor, int64_t* total) {
  if (tensor.lengths.empty()) return WrongTensor(tensor, "has an empty shape");
  int64_t elems = 1;
  for (const int64_t length : tensor.lengths) {
    if (length < 1) return WrongTensor(tensor, fmt::format("has a length of {}", length));
    if (length > kMaxModelElems / elems) return WrongTensor(tensor, "is too large");
    elems *= length;
  }
  if (elems > kMaxModelElems - *total) return WrongTensor(tensor, "makes the model too large");
  *total += elems;
  return Status::Ok();
}

}  // namespace

int64_t TensorShape::elems() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

int64_t ModelShapes::elems() const {
  int64_t sum = 0;
  for (const TensorShape& tensor : tensors) sum += tensor.elems();
  return sum;
}

Status CheckShapes(const ModelShapes& model) {
  if (model.tensors.empty()) return Status(gwInvalidArgument, "the model has no tensors");
  std::set<std::string_view> names;
  int64_t total = 0;
  for (const TensorShape& tensor : model.tensors) {
    if (tensor.name.empty()) return Status(gwInvalidArgument, "a tensor's name is empty");
    if (!names.insert(tensor.name).second) return WrongTensor(tensor, "is there twice");
    GW_RETURN_IF_ERROR(CountElems(tensor, &total));
  }
  return Status::Ok();
}

ModelShapes Scaled(ModelShapes model, double fraction) {
  for (TensorShape& tensor : model.tensors) {
    if (tensor.lengths.size() < 2) continue;
    const auto length = static_cast<double>(tensor.lengths[0]);
    tensor.lengths[0] = static_cast<int64_t>(std::ceil(fraction * length));
  }
  return model;
}

}  // namespace gradwire
