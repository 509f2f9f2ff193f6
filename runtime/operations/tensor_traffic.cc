#include "runtime/operations/tensor_traffic.h"

#include <cstdint>

#include "compress/contribution.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

// Rounds of no elements are not run, but for the last.
int RoundsThatRun(const Codec& codec, const TensorMeta& meta, int world_size) {
  if (codec.carrier == nullptr) return 1;
  int rounds = 1;
  for (int round = 0; round + 1 < codec.carrier->rounds(); ++round) {
    if (codec.carrier->Round(round, meta, world_size, {}, {}).elems > 0) ++rounds;
  }
  return rounds;
}

// What an all-reduce carries of a tensor in a step: of a method its longest round, for one schedule
// serves all of them.
int64_t BytesToSum(const Codec& codec, const TensorMeta& meta, int world_size,
                   ConstBytes replicated) {
  if (codec.carrier == nullptr || IsLossless(codec)) return meta.elems * SizeOf(meta.dtype);
  return LongestRoundBytes(codec, meta, world_size, replicated);
}

StatusOr<const AlgorithmRow*> Choose(Scheme scheme, int64_t bytes,
                                     const AlgorithmRule& algorithms) {
  return algorithms.For(CollectiveOf(scheme, algorithms.world_size), bytes, SendsPayloads(scheme));
}

}  // namespace

StatusOr<const AlgorithmRow*> AlgorithmFor(std::span<const SubmittedTensor> group, Scheme scheme,
                                           const AlgorithmRule& algorithms, MethodState state) {
  const int world_size = algorithms.world_size;
  int64_t bytes = 0;
  for (const SubmittedTensor& submitted : group) {
    const TensorState& tensor = *submitted.tensor;
    const bool is_live = state == MethodState::kLive && ReplicatedBytes(tensor, world_size) > 0;
    bytes += BytesToSum(tensor.codec, MetaOf(tensor), world_size,
                        is_live ? tensor.replicated.live() : ConstBytes());
  }
  return Choose(scheme, bytes, algorithms);
}

TensorTraffic TrafficOf(const Codec& codec, const TensorMeta& meta,
                        const AlgorithmRule& algorithms) {
  const int world_size = algorithms.world_size;
  const StatusOr<const AlgorithmRow*> row =
      Choose(SchemeOf(codec), BytesToSum(codec, meta, world_size, {}), algorithms);
  const auto bytes = static_cast<double>(ContributionBytes(codec, meta, world_size));
  const auto of_all = static_cast<double>((*row)->totals(world_size).messages);
  return {.bytes = 2.0 * (world_size - 1) / world_size * bytes,
          .messages = RoundsThatRun(codec, meta, world_size) * of_all / world_size};
}

}  // namespace gradwire
