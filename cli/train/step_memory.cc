#include "cli/train/step_memory.h"

#include <algorithm>
#include <cmath>

#include "cli/train/gradient_noise.h"

namespace gradwire {
namespace {

constexpr int64_t kElemBytes = sizeof(float);

}  // namespace

Status StepMemory::Make(const ModelShapes& model, uint64_t seed, int rank) {
  for (const TensorShape& shape : model.tensors) {
    places_.push_back({.offset = elems_, .elems = shape.elems()});
    elems_ += AlignUp(shape.elems() * kElemBytes) / kElemBytes;
  }
  for (AlignedBuffer* buffer : {&gradients_[0], &gradients_[1], &sums_}) {
    GW_RETURN_IF_ERROR(buffer->EnsureBytes(elems_ * kElemBytes));
    std::fill_n(buffer->as<float>(), elems_, 0.0f);
  }
  const GradientNoise noise(seed, rank);
  for (int t = 0; t < std::ssize(places_); ++t) {
    Place& place = places_[static_cast<size_t>(t)];
    for (int version = 0; version < std::ssize(gradients_); ++version) {
      float* all = gradients_[static_cast<size_t>(version)].as<float>();
      noise.Fill(t, version, {all + place.offset, static_cast<size_t>(place.elems)});
    }
    place.energy = std::pow(noise.Scale(t), 2) * static_cast<double>(place.elems);
  }
  return Status::Ok();
}

const float* StepMemory::Gradients(uint64_t step) const {
  return gradients_[step % gradients_.size()].as<float>();
}

const float* StepMemory::gradient(size_t tensor, uint64_t step) const {
  return Gradients(step) + places_[tensor].offset;
}

ComputeMemory StepMemory::Of(size_t tensor, uint64_t step) {
  const auto count = static_cast<size_t>(places_[tensor].elems);
  return {.in = {gradient(tensor, step), count}, .out = {sum(tensor), count}};
}

ComputeMemory StepMemory::OfAll(uint64_t step) {
  const auto count = static_cast<size_t>(elems_);
  return {.in = {Gradients(step), count}, .out = {sums_.as<float>(), count}};
}

}  // namespace gradwire
