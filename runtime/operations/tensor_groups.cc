#include "runtime/operations/tensor_groups.h"

#include <algorithm>

#include "base/hash.h"
#include "collectives/schemes/part.h"
#include "compress/codecs/none/exact_rider.h"

namespace gradwire {

uint32_t DitherStepOf(const TensorState& tensor, std::optional<uint64_t> step) {
  if (!step) return tensor.free_ops | kOutsideStep;
  // Some number steps by epoch << 32 | batch: what lies above the bits that fit counts too.
  const uint64_t above = *step / kOutsideStep;
  const uint64_t mixed = above == 0 ? *step : *step ^ Mix64(above);
  return static_cast<uint32_t>(mixed) & ~kOutsideStep;
}

Scheme SchemeOf(const Codec& codec) {
  const CarrierMethod* method = codec.carrier.get();
  if (method == nullptr) return Scheme::kTwoShot;
  return method->Gathers() ? Scheme::kGather : Scheme::kLinear;
}

Scheme SchemeOf(const TensorState& tensor) { return SchemeOf(tensor.codec); }

std::string_view Name(Scheme scheme) {
  switch (scheme) {
    case Scheme::kLinear: return "linear";
    case Scheme::kGather: return "gather";
    case Scheme::kTwoShot: return "two_shot";
    case Scheme::kReduceScatter: return "reduce_scatter";
  }
  return {};
}

std::string_view NameOfOperation(Scheme scheme) {
  return scheme == Scheme::kReduceScatter ? "reduce-scatter of a tensor" : "all-reduce of tensors";
}

Collective CollectiveOf(Scheme scheme, int world_size) {
  if (scheme == Scheme::kReduceScatter) return Collective::kReduceScatter;
  return scheme == Scheme::kGather && world_size > 1 ? Collective::kAllGather
                                                     : Collective::kAllReduce;
}

bool IsLossless(const Codec& codec) {
  return codec.carrier != nullptr && codec.carrier->traits().lossless;
}

bool IsLossless(const TensorState& tensor) { return IsLossless(tensor.codec); }

bool TakesReduceScatter(const TensorState& tensor) {
  return IsLossless(tensor) || SchemeOf(tensor) == Scheme::kTwoShot;
}

namespace {

bool ShareCollectives(TensorState& a, TensorState& b, int world_size) {
  if (SchemeOf(a) != SchemeOf(b) || a.dtype != b.dtype) return false;
  if (SchemeOf(a) == Scheme::kTwoShot) return true;
  if (IsLossless(a) != IsLossless(b)) return false;
  const std::vector<RoundSpec>&first = a.Rounds(world_size), &second = b.Rounds(world_size);
  return std::equal(
      first.begin(), first.end(), second.begin(), second.end(),
      [](const RoundSpec& x, const RoundSpec& y) { return x.dtype == y.dtype && x.op == y.op; });
}

// The exact tensors of a type ride if all of them together are this short: longer ones are copied
// for longer than a collective of their own takes to begin, and one for some of them takes them
// all.
constexpr int64_t kMaxRiderElems = kPieceElems;

bool MayRide(std::span<const SubmittedTensor> tensors, DType dtype) {
  int64_t elems = 0;
  for (const SubmittedTensor& submitted : tensors) {
    const TensorState& tensor = *submitted.tensor;
    if (tensor.dtype == dtype && IsLossless(tensor)) elems += tensor.elems;
  }
  // They travel in float32: half types send twice their bytes.
  return elems * SizeOf(DType::kFloat32) <= kMaxRiderElems * SizeOf(dtype);
}

// The tensors that can take exact ones along, the first of each type.
std::vector<TensorState*> FindHosts(std::span<const SubmittedTensor> tensors, int world_size) {
  std::vector<TensorState*> hosts;
  for (const SubmittedTensor& submitted : tensors) {
    TensorState& tensor = *submitted.tensor;
    const bool has_one = std::any_of(hosts.begin(), hosts.end(), [&](const TensorState* host) {
      return host->dtype == tensor.dtype;
    });
    if (!has_one && SchemeOf(tensor) == Scheme::kLinear && !IsLossless(tensor) &&
        TakesRiders(tensor.Rounds(world_size))) {
      hosts.push_back(&tensor);
    }
  }
  return hosts;
}

// Whose collectives carry the tensor: its host's, or its own.
TensorState& CarriedWith(TensorState& tensor, std::span<TensorState* const> hosts) {
  if (!IsLossless(tensor)) return tensor;
  const auto host = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const TensorState* h) { return h->dtype == tensor.dtype; });
  return host == hosts.end() ? tensor : **host;
}

}  // namespace

std::vector<std::vector<SubmittedTensor>> SplitGroup(std::span<const SubmittedTensor> tensors,
                                                     int world_size) {
  std::vector<TensorState*> hosts = FindHosts(tensors, world_size);
  std::erase_if(hosts, [&](const TensorState* host) { return !MayRide(tensors, host->dtype); });
  std::vector<std::vector<SubmittedTensor>> groups;
  for (const SubmittedTensor& submitted : tensors) {
    TensorState& carried = CarriedWith(*submitted.tensor, hosts);
    auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return ShareCollectives(CarriedWith(*group[0].tensor, hosts), carried, world_size);
    });
    if (it == groups.end()) it = groups.insert(groups.end(), std::vector<SubmittedTensor>());
    it->push_back(submitted);
  }
  return groups;
}

bool AreLossless(std::span<const SubmittedTensor> group) {
  return std::all_of(group.begin(), group.end(), [](const SubmittedTensor& submitted) {
    return IsLossless(*submitted.tensor);
  });
}

std::shared_ptr<const CarrierMethod> RiderFor(std::span<const SubmittedTensor> group,
                                              int world_size) {
  const std::vector<TensorState*> hosts = FindHosts(group, world_size);
  const bool rides = std::any_of(group.begin(), group.end(),
                                 [](const SubmittedTensor& s) { return IsLossless(*s.tensor); });
  return hosts.empty() || !rides ? nullptr : MakeExactRider(hosts[0]->Rounds(world_size));
}

}  // namespace gradwire
