// Gradients that look like those of a network: normal noise whose scale differs widely between
// tensors, a part of it common to all ranks.
#ifndef GRADWIRE_CLI_TRAIN_GRADIENT_NOISE_H_
#define GRADWIRE_CLI_TRAIN_GRADIENT_NOISE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace gradwire {

// Correlation of two ranks' gradients: what they share is the true gradient, the rest is what their
// batches add.
inline constexpr double kRankCorrelation = 0.3;

// Fixed by (seed, rank). Immutable once made.
class GradientNoise {
 public:
  GradientNoise(uint64_t seed, int rank);

  // Standard deviation of a tensor's elements: log-normal over the tensors, equal on all ranks.
  double Scale(int tensor) const;

  // Gradient `version` of tensor number `tensor`; versions differ as gradients of different steps.
  void Fill(int tensor, int version, std::span<float> gradient) const;

 private:
  uint64_t seed_;
  std::vector<float> shared_, own_;  // variance 1, repeated over the elements
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_GRADIENT_NOISE_H_
