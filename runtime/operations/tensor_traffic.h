// What all-reduces of tensors ask of the network.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_TENSOR_TRAFFIC_H_
#define GRADWIRE_RUNTIME_OPERATIONS_TENSOR_TRAFFIC_H_

#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/schedule.h"
#include "compress/registry.h"
#include "runtime/operations/tensor_groups.h"

namespace gradwire {

// Of a group that travels together by one scheme: by what its methods send once they have settled,
// or as their live replicated state, which nobody writes meanwhile, has it.
enum class MethodState : uint8_t { kSettled, kLive };
StatusOr<const AlgorithmRow*> AlgorithmFor(std::span<const SubmittedTensor> group, Scheme scheme,
                                           const AlgorithmRule& algorithms, MethodState state);

// What each rank sends for a tensor by itself, in the mean over them.
struct TensorTraffic {
  double bytes = 0;     // without headers
  double messages = 0;  // of the first slice: those of further ones grow with the bytes
};
// Of tensors that `codec` accepts. Its algorithm is registered.
TensorTraffic TrafficOf(const Codec& codec, const TensorMeta& meta,
                        const AlgorithmRule& algorithms);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_TENSOR_TRAFFIC_H_
