// Top-k that gathers: every rank sends its largest elements to all, who add them in rank order
// (Deep Gradient Compression, Lin et al. 2018).
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_GATHER_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_GATHER_H_

#include <cstdint>
#include <memory>

#include "compress/carrier_method.h"

namespace gradwire {

inline constexpr int64_t kMaxWarmupSteps = 1'000'000'000;

struct TopkGatherOptions {
  double density = 0;
  // Of the momentum that a rank adds up before it selects; where an element is sent, momentum and
  // residual begin anew. Then the output is no estimate of the sum of the gradients but of their
  // momentum, and the optimizer must have none. 0: none, and the sum is estimated.
  float momentum = 0;
  // So many committed steps at each of the densities 1/4, 1/16, ... that are larger than `density`,
  // but for those at which an all-reduce of all elements moves less.
  int64_t warmup_steps = 0;
};

std::shared_ptr<const CarrierMethod> MakeTopkGather(const TopkGatherOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_GATHER_H_
