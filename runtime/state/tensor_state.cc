#include "runtime/state/tensor_state.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/hash.h"
#include "base/numeric.h"
#include "compress/contribution.h"

namespace gradwire {

Status StateSlots::Allocate(int64_t bytes, int slots) {
  for (int i = 0; i < slots; ++i) {
    if (Status got = slot_[i].EnsureBytes(bytes); !got.ok()) {
      Release();  // what there was before it is needed elsewhere
      return got;
    }
  }
  bytes_ = bytes;
  slots_ = slots;
  live_ = 0;
  // An empty tensor has no memory, which memset must not be given.
  std::fill_n(slot_[live_].data(), bytes, std::byte{0});
  return Status();
}

void StateSlots::Release() {
  for (AlignedBuffer& slot : slot_) slot.Reset();
  bytes_ = 0;
  live_ = 0;
}

void StateSlots::Restore(ConstBytes bytes) {
  std::copy_n(bytes.data, bytes.size, slot_[live_].data());
}

namespace {

View FloatsOf(Bytes bytes) {
  return {bytes.data, bytes.size / static_cast<int64_t>(sizeof(float)), DType::kFloat32};
}

}  // namespace

Status FloatSlots::Allocate(int64_t elems, bool transaction) {
  return slots_.Allocate(BytesOfSlot(elems), Slots(transaction));
}

ConstView FloatSlots::live() const {
  const ConstBytes bytes = slots_.live();
  return {bytes.data, bytes.size / static_cast<int64_t>(sizeof(float)), DType::kFloat32};
}

View FloatSlots::LiveInPlace() { return FloatsOf(slots_.LiveInPlace()); }
View FloatSlots::next() { return FloatsOf(slots_.next()); }

bool FloatSlots::KeepUnsent(ConstView out, bool staged) {
  const View kept = staged ? next() : LiveInPlace();
  if (CountNonFinite(out) == 0) {
    std::fill_n(kept.as<float>(), kept.elems, 0.0f);
    return false;
  }
  const float* before = live().as<float>();
  for (int64_t i = 0; i < out.elems; ++i)
    kept.as<float>()[i] = CountNonFinite(out.Sub(i, 1)) == 0 ? 0.0f : before[i];
  return true;
}

void TensorState::SetCodec(Codec now) {
  // Also where it was a rung's, and another rank has not left that rung.
  SetAside(now.spec);
  set_aside_.clear();
  if (now.spec != kept_spec) local.Release();
  kept_spec = now.spec;
  codec = std::move(now);
}

void TensorState::TakeLadder(std::shared_ptr<const AutoSpec> ladder, int world_size) {
  automatic = std::move(ladder);
  usable_.clear();
  for (const Rung& rung : automatic->ladder) {
    usable_.push_back(usable_.empty() || (ExemptionFrom(rung.codec, *this).empty() &&
                                          rung.codec.Check(MetaOf(*this), world_size).ok()));
  }
}

void TensorState::TakeRung(const Codec& now, int world_size) {
  codec = now;
  if (gradwire::ReplicatedBytes(*this, world_size) == 0) return;
  SetAside(now.spec);
  kept_spec = now.spec;
}

bool TensorState::MayKeepResidual() const {
  if (automatic == nullptr) return feedback();
  return std::ranges::any_of(automatic->ladder,
                             [](const Rung& rung) { return rung.codec.feedback == Feedback::kOn; });
}

// `replicated` is what the codec of that spec has kept.
void TensorState::SetAside(const std::string& spec) {
  if (spec == kept_spec) return;
  StateSlots found;
  if (auto node = set_aside_.extract(spec)) found = std::move(node.mapped());
  if (replicated.allocated()) set_aside_.insert_or_assign(kept_spec, std::move(replicated));
  replicated = std::move(found);
}

void TensorState::ReleaseReplicated() {
  replicated.Release();
  set_aside_.clear();
}

int64_t TensorState::replicated_bytes() const {
  int64_t bytes = replicated.held_bytes();
  for (const auto& entry : set_aside_) bytes += entry.second.held_bytes();
  return bytes;
}

const std::shared_ptr<const TensorLabel>& TensorState::Label() {
  if (label_ == nullptr || label_->spec != codec.spec) {
    TensorLabel label = {.name = name, .spec = codec.spec, .elems = elems};
    if (codec.min_dims > 0) label.shape = ShapeText(shape, dtype);
    label.digest = Hasher().Add(name).Add(codec.spec).Add(elems).Add(label.shape).digest();
    label_ = std::make_shared<const TensorLabel>(std::move(label));
  }
  return label_;
}

const std::vector<RoundSpec>& TensorState::Rounds(int world_size) {
  if (known_.spec == codec.spec && known_.world_size == world_size) return known_.rounds;
  known_ = {.spec = codec.spec, .world_size = world_size};
  for (int round = 0; round < codec.carrier->rounds(); ++round)
    known_.rounds.push_back(codec.carrier->Round(round, MetaOf(*this), world_size, {}, {}));
  return known_.rounds;
}

TensorMeta MetaOf(const TensorState& tensor) {
  return {.shape = tensor.shape, .elems = tensor.elems, .dtype = tensor.dtype};
}

std::string ShapeText(std::span<const int64_t> shape, DType dtype) {
  return fmt::format("[{}] {}", fmt::join(shape, ","), Name(dtype));
}

namespace {

// Of a matrix whose factors are no smaller than itself; empty: they are, or the codec makes none.
std::string GrowthIn(const Codec& codec, const TensorState& tensor) {
  constexpr int kAnyRanks = 1;  // factors do not depend on it
  if (codec.carrier == nullptr || codec.min_dims == 0 || tensor.elems == 0) return {};
  const int64_t factors = ContributionBytes(codec, MetaOf(tensor), kAnyRanks);
  const int64_t whole = tensor.elems * SizeOf(tensor.dtype);
  if (factors < whole) return {};
  return fmt::format("its factors have {} bytes, the matrix {}", factors, whole);
}

}  // namespace

std::string ExemptionFrom(const Codec& codec, const TensorState& tensor) {
  if (tensor.elems < codec.min_numel)
    return fmt::format("{} elements < min_numel {}", tensor.elems, codec.min_numel);
  if (std::ssize(tensor.shape) < codec.min_dims)
    return fmt::format("dimensions {} < {}", tensor.shape.size(), codec.min_dims);
  if (MatchesAny(codec.exclude, tensor.name))
    return fmt::format("its name matches exclude \"{}\"", codec.exclude);
  return GrowthIn(codec, tensor);
}

int64_t ReplicatedBytes(const TensorState& tensor, int world_size) {
  const CarrierMethod* method = tensor.codec.carrier.get();
  return method == nullptr || tensor.elems == 0
             ? 0
             : method->ReplicatedBytes(MetaOf(tensor), world_size);
}

bool MatchesAny(const std::string& globs, const std::string& name) {
  for (size_t begin = 0; begin < globs.size();) {
    const size_t end = std::min(globs.find(',', begin), globs.size());
    const std::string glob = globs.substr(begin, end - begin);
    if (!glob.empty() && fnmatch(glob.c_str(), name.c_str(), 0) == 0) return true;
    begin = end + 1;
  }
  return false;
}

StatusOr<TensorState*> TensorTable::Add(std::unique_ptr<TensorState> tensor) {
  tensor->id = HashString(tensor->name);
  if (tensors_.contains(tensor->name)) {
    return Status(gwInvalidArgument,
                  fmt::format("a tensor named '{}' is registered already", tensor->name),
                  "Give each tensor a name of its own, or deregister the old one first");
  }
  TensorState* added = tensor.get();
  added->free_ops = drawn_;
  if (const auto other = by_id_.find(added->id); other != by_id_.end()) {
    return Status(
        gwInvalidArgument,
        fmt::format("the names '{}' and '{}' have the same hash", other->second->name, added->name),
        "Rename one of them");
  }
  // Memory first: it is in both tables or in none.
  decltype(by_id_) one = {{added->id, added}};
  tensors_.emplace(added->name, std::move(tensor));
  by_id_.merge(one);
  return added;
}

// Ranks that add and remove in one order go on alike. Where they do not, the next sum outside steps
// in which all must draw the same is a mismatch, and behind that they do.
void TensorTable::Remove(TensorState* tensor) {
  drawn_ = std::max(drawn_, tensor->free_ops.load());
  by_id_.erase(tensor->id);
  tensors_.erase(std::string(tensor->name));
}

uint64_t TensorTable::Digest() const {
  Hasher hasher;
  for (const auto& [name, tensor] : tensors_) {
    hasher.Add(tensor->id).Add(static_cast<uint64_t>(tensor->dtype));
    for (int64_t length : tensor->shape) hasher.Add(static_cast<uint64_t>(length));
  }
  return hasher.digest();
}

TensorList TensorTable::List() const {
  TensorList list;
  for (const auto& [name, tensor] : tensors_) {
    list.emplace_back(name, ShapeText(tensor->shape, tensor->dtype));
  }
  return list;
}

std::vector<TensorState*> TensorTable::All() const {
  std::vector<TensorState*> all;
  for (const auto& entry : tensors_) all.push_back(entry.second.get());
  return all;
}

void TensorTable::EndStep(uint64_t step, bool commit) {
  for (const auto& [name, tensor] : tensors_) {
    if (std::exchange(tensor->replicated_staged, false) && commit) tensor->replicated.Commit();
    const bool fresh = std::exchange(tensor->fresh, false);
    const bool took_part = std::exchange(tensor->took_part, false);
    const bool staged = std::exchange(tensor->staged, false);
    const bool travelled = std::exchange(tensor->travelled, false);
    if (fresh && !commit) tensor->residual.Release();
    if (!commit) continue;
    tensor->sent_free = false;
    if (took_part) tensor->committed_step = step;
    if (staged && tensor->local.allocated()) tensor->local.Commit();
    if (!tensor->residual.allocated()) continue;
    if (staged) tensor->residual.Commit();
    if (travelled) tensor->residual.Release();
    if (staged) PassFailpoint(Failpoint::kCommit);
  }
}

Status TensorTable::BeginAnew(uint32_t draws, bool transaction) {
  Status status;
  drawn_ = std::max(drawn_, draws);
  for (const auto& [name, tensor] : tensors_) {
    tensor->ReleaseReplicated();
    // A state that was loaded may be ahead of all that was drawn since.
    tensor->free_ops.store(std::max(tensor->free_ops.load(), draws));
    const bool sent = std::exchange(tensor->sent_free, false);
    if (!(sent || tensor->MayKeepResidual()) || tensor->residual.allocated()) continue;
    Status allocated = tensor->residual.Allocate(tensor->elems, transaction);
    if (!allocated.ok()) status = std::move(allocated).WithTensor(name);
  }
  return status;
}

}  // namespace gradwire
