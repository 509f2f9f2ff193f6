#include "runtime/tensor_state.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc.h"
#include "base/failpoint.h"
#include "base/hash.h"

namespace gradwire {
namespace {

constexpr uint32_t kStateMagic = 0x31535747;  // "GWS1"
constexpr uint32_t kStateVersion = 3;

// Writes numbers and arrays one behind the other.
class Writer {
 public:
  template <typename T>
  void Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutBytes(const void* data, size_t bytes) {
    text_.append(static_cast<const char*>(data), bytes);
  }
  std::string Finish() && {
    Put(Crc32c(text_.data(), static_cast<int64_t>(text_.size())));
    return std::move(text_);
  }

 private:
  std::string text_;
};

// Reads them back; after the end everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(ConstBytes bytes) : bytes_(bytes) {}
  template <typename T>
  T Get() {
    T value{};
    const ConstBytes part = GetBytes(sizeof(T));
    if (ok_) std::memcpy(&value, part.data, sizeof(T));
    return value;
  }
  ConstBytes GetBytes(uint64_t bytes) {
    if (!ok_ || bytes > static_cast<uint64_t>(bytes_.size - at_)) {
      ok_ = false;
      return {};
    }
    at_ += static_cast<int64_t>(bytes);
    return bytes_.Sub(at_ - static_cast<int64_t>(bytes), static_cast<int64_t>(bytes));
  }
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == bytes_.size; }

 private:
  ConstBytes bytes_;
  int64_t at_ = 0;
  bool ok_ = true;
};

// One tensor as it lies in a saved state.
struct SavedTensor {
  TensorState* tensor = nullptr;
  uint64_t committed_step = 0;
  uint32_t free_ops = 0;
  ConstBytes residual, replicated, local;
};

// What methods keep is understood by the codec that the tensor has now.
bool IsOfItsCodec(const SavedTensor& saved, int world_size) {
  const TensorState& tensor = *saved.tensor;
  const int64_t local_bytes =
      tensor.keeps_local() ? tensor.elems * static_cast<int64_t>(sizeof(float)) : 0;
  return (saved.replicated.empty() ||
          saved.replicated.size == ReplicatedBytes(tensor, world_size)) &&
         (saved.local.empty() || saved.local.size == local_bytes);
}

template <typename Slots>
void RestoreOrRelease(ConstBytes saved, Slots* slots) {
  if (saved.empty()) {
    slots->Release();
  } else {
    slots->Restore(saved);
  }
}

Status Corrupt(const char* what) {
  return Status(gwDataCorrupt, fmt::format("the saved state is damaged: {}", what),
                "Load the bytes exactly as gwStateSave wrote them");
}

}  // namespace

Status StateSlots::Allocate(int64_t bytes, int slots) {
  for (int i = 0; i < slots; ++i) GW_RETURN_IF_ERROR(slot_[i].EnsureBytes(bytes));
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

void SetZero(View view) { std::fill_n(view.as<float>(), view.elems, 0.0f); }

}  // namespace

Status FloatSlots::Allocate(int64_t elems, bool transaction) {
  return slots_.Allocate(elems * static_cast<int64_t>(sizeof(float)), transaction ? 2 : 1);
}

ConstView FloatSlots::live() const {
  const ConstBytes bytes = slots_.live();
  return {bytes.data, bytes.size / static_cast<int64_t>(sizeof(float)), DType::kFloat32};
}

View FloatSlots::LiveInPlace() { return FloatsOf(slots_.LiveInPlace()); }
View FloatSlots::next() { return FloatsOf(slots_.next()); }
void FloatSlots::SetLiveZero() { SetZero(LiveInPlace()); }
void FloatSlots::StageZero() { SetZero(next()); }

void TensorState::SetCodec(Codec now) {
  if (now.spec != codec.spec) {
    replicated.Release();
    local.Release();
  }
  codec = std::move(now);
}

void TensorState::TakeRung(const Codec& now, int world_size) {
  codec = now;
  if (gradwire::ReplicatedBytes(*this, world_size) == 0 || now.spec == kept_spec) return;
  replicated.Release();
  kept_spec = now.spec;
}

TensorMeta MetaOf(const TensorState& tensor) {
  return {.shape = tensor.shape, .elems = tensor.elems, .dtype = tensor.dtype};
}

bool IsExempt(const TensorState& tensor, const Codec& codec) {
  return tensor.elems < codec.min_numel || static_cast<int>(tensor.shape.size()) < codec.min_dims ||
         MatchesAny(codec.exclude, tensor.name);
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
  for (const auto& [name, other] : tensors_) {
    if (name == tensor->name) {
      return Status(gwInvalidArgument,
                    fmt::format("a tensor named '{}' is registered already", name),
                    "Give each tensor a name of its own, or deregister the old one first");
    }
    if (other->id == tensor->id) {
      return Status(gwInvalidArgument,
                    fmt::format("the names '{}' and '{}' have the same hash", name, tensor->name),
                    "Rename one of them");
    }
  }
  TensorState* added = tensor.get();
  tensors_.emplace(added->name, std::move(tensor));
  return added;
}

void TensorTable::Remove(TensorState* tensor) { tensors_.erase(std::string(tensor->name)); }

bool TensorTable::Holds(const TensorState* tensor) const {
  for (const auto& entry : tensors_) {
    if (entry.second.get() == tensor) return true;
  }
  return false;
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
    list.emplace_back(name,
                      fmt::format("[{}] {}", fmt::join(tensor->shape, ","), Name(tensor->dtype)));
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
    if (fresh && !commit) tensor->residual.Release();
    if (!std::exchange(tensor->staged, false) || !commit) continue;
    tensor->committed_step = step;
    if (tensor->local.allocated()) tensor->local.Commit();
    if (!tensor->residual.allocated()) continue;
    tensor->residual.Commit();
    if (tensor->travelled) tensor->residual.Release();
    PassFailpoint(Failpoint::kCommit);
  }
}

std::string TensorTable::Save(int rank, int world_size) const {
  Writer out;
  out.Put(kStateMagic);
  out.Put(kStateVersion);
  out.Put(static_cast<int32_t>(rank));
  out.Put(static_cast<int32_t>(world_size));
  out.Put(static_cast<uint64_t>(tensors_.size()));
  for (const auto& [name, tensor] : tensors_) {
    const ConstView residual = tensor->residual.live();
    out.Put(static_cast<uint64_t>(name.size()));
    out.PutBytes(name.data(), name.size());
    out.Put(static_cast<int32_t>(tensor->dtype));
    out.Put(tensor->elems);
    out.Put(tensor->committed_step);
    out.Put(tensor->free_ops);
    out.Put(static_cast<uint64_t>(residual.bytes()));
    out.PutBytes(residual.data, residual.bytes());
    const ConstBytes replicated = tensor->replicated.live();
    out.Put(static_cast<uint64_t>(replicated.size));
    out.PutBytes(replicated.data, replicated.size);
    const ConstView local = tensor->local.live();
    out.Put(static_cast<uint64_t>(local.bytes()));
    out.PutBytes(local.data, local.bytes());
  }
  return std::move(out).Finish();
}

Status TensorTable::Load(ConstBytes bytes, int rank, int world_size, bool transaction) {
  constexpr int64_t kCrcBytes = sizeof(uint32_t);
  if (bytes.size < kCrcBytes) return Corrupt("too short");
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data + bytes.size - kCrcBytes, kCrcBytes);
  if (Crc32c(bytes.data, bytes.size - kCrcBytes) != crc) return Corrupt("wrong checksum");
  Reader in(bytes.Sub(0, bytes.size - kCrcBytes));
  if (in.Get<uint32_t>() != kStateMagic) return Corrupt("not a gradwire state");
  const auto version = in.Get<uint32_t>();
  if (version != kStateVersion) {
    return Status(gwMismatch,
                  fmt::format("the state has format {}, not {}", version, kStateVersion),
                  "Load it with the version of gradwire that saved it");
  }
  const auto saved_rank = in.Get<int32_t>();
  const auto saved_size = in.Get<int32_t>();
  if (saved_rank != rank || saved_size != world_size) {
    return Status(gwMismatch, {.message = "the state was saved by another rank",
                               .hint = "Load at the rank that saved it, in a job of the same size",
                               .field = "rank of world size",
                               .expected = fmt::format("{} of {}", rank, world_size),
                               .actual = fmt::format("{} of {}", saved_rank, saved_size)});
  }
  std::vector<SavedTensor> saved(in.Get<uint64_t>() == tensors_.size() ? tensors_.size() : 0);
  if (saved.size() != tensors_.size()) {
    return Status(gwMismatch, "the state holds another number of tensors than are registered",
                  "Register the same tensors before loading");
  }
  std::string previous;
  for (SavedTensor& entry : saved) {
    const ConstBytes name = in.GetBytes(in.Get<uint64_t>());
    const auto dtype = in.Get<int32_t>();
    const auto elems = in.Get<int64_t>();
    entry.committed_step = in.Get<uint64_t>();
    entry.free_ops = in.Get<uint32_t>();
    entry.residual = in.GetBytes(in.Get<uint64_t>());
    entry.replicated = in.GetBytes(in.Get<uint64_t>());
    entry.local = in.GetBytes(in.Get<uint64_t>());
    if (!in.ok()) return Corrupt("it ends early");
    const std::string text(reinterpret_cast<const char*>(name.data), name.size);
    // A name twice would leave another tensor out.
    if (&entry != &saved.front() && text <= previous)
      return Corrupt("its tensors are out of order");
    previous = text;
    auto it = tensors_.find(text);
    if (it == tensors_.end() || it->second->elems != elems ||
        it->second->dtype != static_cast<DType>(dtype)) {
      return Status(gwMismatch, fmt::format("tensor '{}' of the state is not registered so", text),
                    "Register the same tensors, with the same shapes and types, before loading");
    }
    if (entry.residual.size != 0 &&
        entry.residual.size != elems * static_cast<int64_t>(sizeof(float))) {
      return Corrupt("a residual has another length than its tensor");
    }
    entry.tensor = it->second.get();
    // Its controller begins anew; only the residual is of use whatever the codec.
    if (entry.tensor->automatic != nullptr) entry.replicated = entry.local = {};
    if (!IsOfItsCodec(entry, world_size)) {
      return Status(gwMismatch,
                    fmt::format("the state of tensor '{}' is another codec's than {}", text,
                                entry.tensor->codec.spec),
                    "Register the tensors with the specs they had when the state was saved");
    }
  }
  if (!in.at_end()) return Corrupt("bytes follow its end");
  // Memory first, so that a failure changes nothing that counts.
  for (const SavedTensor& entry : saved) {
    TensorState& tensor = *entry.tensor;
    if (!entry.residual.empty() && !tensor.residual.allocated()) {
      GW_RETURN_IF_ERROR(tensor.residual.Allocate(tensor.elems, transaction));
    }
    if (!entry.replicated.empty() && !tensor.replicated.allocated()) {
      GW_RETURN_IF_ERROR(tensor.replicated.Allocate(entry.replicated.size, kReplicatedSlots));
    }
    if (!entry.local.empty() && !tensor.local.allocated()) {
      GW_RETURN_IF_ERROR(tensor.local.Allocate(tensor.elems, transaction));
    }
  }
  for (const SavedTensor& entry : saved) {
    entry.tensor->committed_step = entry.committed_step;
    entry.tensor->free_ops = entry.free_ops;
    entry.tensor->fresh = false;
    RestoreOrRelease(entry.residual, &entry.tensor->residual);
    RestoreOrRelease(entry.replicated, &entry.tensor->replicated);
    RestoreOrRelease(entry.local, &entry.tensor->local);
  }
  return Status();
}

}  // namespace gradwire
