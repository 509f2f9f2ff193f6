// Which tensors of a submission travel together, and by which scheme.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_TENSOR_GROUPS_H_
#define GRADWIRE_RUNTIME_OPERATIONS_TENSOR_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/schedule.h"
#include "compress/carrier_method.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {

// One registered tensor of a group as submitted.
struct SubmittedTensor {
  TensorState* tensor = nullptr;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint32_t dither_step = 0;
};

// Operations that fall in no step draw from counters of their own, told apart from steps by the
// top bit.
inline constexpr uint32_t kOutsideStep = 0x80000000u;
// Of the tensor's next operation, in this step or, nullopt, outside of any.
uint32_t DitherStepOf(const TensorState& tensor, std::optional<uint64_t> step);

// kGather: carriers of methods that gather, by the machine of kLinear. kReduceScatter: the first
// half of kTwoShot, for a reduce-scatter.
enum class Scheme : uint8_t { kLinear, kGather, kTwoShot, kReduceScatter };
// How an all-reduce of the tensor is done.
Scheme SchemeOf(const Codec& codec);
Scheme SchemeOf(const TensorState& tensor);
// Whether kReduceScatter can do it: its codec makes payloads, or it is exact.
bool TakesReduceScatter(const TensorState& tensor);
std::string_view Name(Scheme scheme);
// As errors and the ranks' texts call an operation of the scheme.
std::string_view NameOfOperation(Scheme scheme);
// Its messages are payloads, of a codec or exact ones.
inline bool SendsPayloads(Scheme scheme) {
  return scheme == Scheme::kTwoShot || scheme == Scheme::kReduceScatter;
}
// What its schedules do. One rank by itself sums: no method runs.
Collective CollectiveOf(Scheme scheme, int world_size);

// Tensors of one scheme and type, whose carriers are of one type and operation in every round,
// travel together, in the order in which they were submitted; the split is a function of the table
// alone. Where the exact tensors of a type are small, all together, they ride along with the first
// others of their type whose last round can take them: that costs less than a collective of their
// own.
std::vector<std::vector<SubmittedTensor>> SplitGroup(std::span<const SubmittedTensor> tensors,
                                                     int world_size);

// The plain sum: no codec runs.
bool IsLossless(const Codec& codec);
bool IsLossless(const TensorState& tensor);
bool AreLossless(std::span<const SubmittedTensor> group);
// The method of the exact tensors of a group with others; null where it has not both.
std::shared_ptr<const CarrierMethod> RiderFor(std::span<const SubmittedTensor> group,
                                              int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_TENSOR_GROUPS_H_
