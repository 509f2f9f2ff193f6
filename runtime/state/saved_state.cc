// Tensors' state as bytes, and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/byte_stream.h"
#include "base/crc.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

constexpr uint32_t kStateMagic = 0x32535747;  // "GWS2"
constexpr uint32_t kStateFormat = 6;
// Before format 6, with the format's number behind it.
constexpr uint32_t kOlderMagic = 0x31535747;  // "GWS1"

// Parts have checksums of their own, so that what is one rank's can be told from what all have
// alike without knowing what is in it. docs/wire_format.md is the specification.
enum class Kind : uint32_t { kOrigin = 1, kTensor = 2, kResidual = 3, kLocal = 4, kEnd = 5 };

struct Part {
  Kind kind = Kind::kEnd;
  ConstBytes content;
};

// Who saved the state.
struct Origin {
  int32_t rank = 0, world_size = 0;
  uint64_t tensors = 0;
};

// One tensor as it lies in a saved state.
struct SavedTensor {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;
  std::string spec;  // of the codec that kept `replicated` and `local`; empty: there is neither
  uint64_t committed_step = 0;
  uint32_t free_ops = 0;
  ConstBytes residual, replicated, local;
  TensorState* tensor = nullptr;  // the registered one of its name
};

// Puts parts one behind the other into memory or, without any, only counts: a state may be as large
// as the model, so nobody copies it to know its size.
class StateWriter {
 public:
  explicit StateWriter(std::byte* to) : to_(to) {}

  void PutMagic() { Put(&kStateMagic, sizeof(kStateMagic)); }
  void PutPart(Kind kind, ConstBytes content) {
    const auto length = static_cast<uint64_t>(sizeof(kind)) + static_cast<uint64_t>(content.size);
    Put(&length, sizeof(length));
    Put(&kind, sizeof(kind));
    Put(content.data, content.size);
    const uint32_t crc =
        to_ == nullptr ? 0 : Crc32c(to_ + size_ - length, static_cast<int64_t>(length));
    Put(&crc, sizeof(crc));
  }
  int64_t size() const { return size_; }

 private:
  void Put(const void* data, int64_t bytes) {
    if (to_ != nullptr && bytes > 0) std::memcpy(to_ + size_, data, bytes);
    size_ += bytes;
  }

  std::byte* const to_;
  int64_t size_ = 0;
};

void PutTensor(const TensorState& tensor, StateWriter* out) {
  ByteWriter alike;
  alike.PutText(tensor.name);
  alike.Put(static_cast<int32_t>(tensor.dtype));
  alike.Put(static_cast<uint32_t>(tensor.shape.size()));
  for (int64_t length : tensor.shape) alike.Put(length);
  const bool codec_keeps = tensor.replicated.allocated() || tensor.local.allocated();
  alike.PutText(codec_keeps ? tensor.kept_spec : "");
  alike.Put(tensor.committed_step);
  alike.Put(tensor.free_ops.load());
  alike.PutBytes(tensor.replicated.live());
  out->PutPart(Kind::kTensor, TextBytes(alike.bytes()));
  if (tensor.residual.allocated()) out->PutPart(Kind::kResidual, tensor.residual.live().AsBytes());
  if (tensor.local.allocated()) out->PutPart(Kind::kLocal, tensor.local.live().AsBytes());
}

Status Corrupt(const char* what) {
  return Status(gwDataCorrupt, fmt::format("the saved state is damaged: {}", what),
                "Load the bytes exactly as gwStateSave wrote them");
}

Status AnotherFormat(uint32_t format) {
  return Status(gwMismatch, fmt::format("the state has format {}, not {}", format, kStateFormat),
                "Load it with the version of gradwire that saved it");
}

Status CheckMagic(ByteReader* in) {
  const auto magic = in->Get<uint32_t>();
  if (!in->ok()) return Corrupt("too short");
  if (magic == kStateMagic) return Status();
  const auto format = in->Get<uint32_t>();
  const bool older = magic == kOlderMagic && in->ok() && format < kStateFormat;
  return older ? AnotherFormat(format) : Corrupt("not a gradwire state");
}

// All of them, the last one a kEnd. What they hold stays where it is.
StatusOr<std::vector<Part>> ReadParts(ConstBytes bytes) {
  ByteReader in(bytes);
  GW_RETURN_IF_ERROR(CheckMagic(&in));
  std::vector<Part> parts;
  while (!in.at_end()) {
    const ConstBytes part = in.GetBytes();
    const auto crc = in.Get<uint32_t>();
    if (!in.ok()) return Corrupt("it ends early");
    if (Crc32c(part.data, part.size) != crc) return Corrupt("wrong checksum");
    ByteReader head(part);
    const auto kind = head.Get<Kind>();
    if (!head.ok()) return Corrupt("a part of no kind");
    parts.push_back({kind, part.Sub(sizeof(kind), part.size - static_cast<int64_t>(sizeof(kind)))});
  }
  if (parts.empty() || parts.back().kind != Kind::kEnd) return Corrupt("it ends early");
  return parts;
}

StatusOr<Origin> ReadOrigin(const Part& part) {
  ByteReader in(part.content);
  const auto format = in.Get<uint32_t>();
  if (part.kind != Kind::kOrigin || !in.ok()) return Corrupt("it begins with another part");
  if (format != kStateFormat) return AnotherFormat(format);
  Origin origin;
  in.Get(&origin.rank, &origin.world_size, &origin.tensors);
  if (!in.ok() || !in.at_end()) return Corrupt("its first part has another length");
  return origin;
}

StatusOr<SavedTensor> ReadTensor(ConstBytes content) {
  ByteReader in(content);
  SavedTensor saved;
  saved.name = in.GetText();
  saved.dtype = in.Get<int32_t>();
  for (auto dims = in.Get<uint32_t>(); dims > 0 && in.ok(); --dims) {
    saved.shape.push_back(in.Get<int64_t>());
  }
  saved.spec = in.GetText();
  saved.committed_step = in.Get<uint64_t>();
  saved.free_ops = in.Get<uint32_t>();
  saved.replicated = in.GetBytes();
  if (!in.ok() || !in.at_end()) return Corrupt("a tensor's part has another length");
  return saved;
}

// Adds one part to the tensors read before it.
Status Take(const Part& part, std::vector<SavedTensor>* all) {
  if (part.kind == Kind::kTensor) {
    StatusOr<SavedTensor> saved = ReadTensor(part.content);
    if (!saved.ok()) return saved.status();
    // A name twice would leave another tensor out.
    if (!all->empty() && saved->name <= all->back().name)
      return Corrupt("its tensors are out of order");
    all->push_back(std::move(*saved));
    return Status();
  }
  const bool is_residual = part.kind == Kind::kResidual;
  const bool is_local = part.kind == Kind::kLocal;
  // In this order, each once, and never empty.
  if (all->empty() || part.content.empty() || !(is_residual || is_local) ||
      !all->back().local.empty() || (is_residual && !all->back().residual.empty()))
    return Corrupt("its parts are out of order");
  (is_residual ? all->back().residual : all->back().local) = part.content;
  return Status();
}

// What is one rank's own is of use to that rank alone.
Status CheckOrigin(const Origin& origin, const std::vector<SavedTensor>& all, int rank,
                   int world_size) {
  if (origin.rank == rank && origin.world_size == world_size) return Status();
  const bool has_own = std::any_of(all.begin(), all.end(), [](const SavedTensor& saved) {
    return !saved.residual.empty() || !saved.local.empty();
  });
  if (!has_own) return Status();
  return Status(gwMismatch,
                {.message = "the state was saved by another rank",
                 .hint = "Load at the rank that saved it, in a job of the same size",
                 .field = "rank of world size",
                 .expected = fmt::format("{} of {} (here)", rank, world_size),
                 .actual = fmt::format("{} of {} (saved)", origin.rank, origin.world_size)});
}

// No lengths but those that the tensor and its codec ask for.
bool HasRightLengths(const SavedTensor& saved, int world_size) {
  const TensorState& tensor = *saved.tensor;
  const int64_t float_bytes = tensor.elems * static_cast<int64_t>(sizeof(float));
  const bool codec_keeps = !saved.replicated.empty() || !saved.local.empty();
  return (!codec_keeps || !saved.spec.empty()) &&
         (saved.residual.empty() || saved.residual.size == float_bytes) &&
         (saved.replicated.empty() ||
          saved.replicated.size == ReplicatedBytes(tensor, world_size)) &&
         (saved.local.empty() || (tensor.keeps_local() && saved.local.size == float_bytes));
}

std::string ShapeTextOf(const SavedTensor& saved) {
  const std::optional<DType> dtype = DTypeFromInt(saved.dtype);
  return dtype ? ShapeText(saved.shape, *dtype) : "of an unknown type";
}

Status Check(const SavedTensor& saved, int world_size) {
  if (saved.tensor == nullptr) {
    return Status(gwMismatch, {.message = "a tensor of the state is not registered",
                               .tensor = saved.name,
                               .hint = "Register the same tensors before loading"});
  }
  const TensorState& tensor = *saved.tensor;
  const std::string here = ShapeText(tensor.shape, tensor.dtype), there = ShapeTextOf(saved);
  if (here != there) {
    return Status(gwMismatch, {.message = "the saved state is of another tensor",
                               .tensor = saved.name,
                               .hint = "Register the shapes and types that were saved",
                               .field = "shape",
                               .expected = here + " (registered)",
                               .actual = there + " (saved)"});
  }
  // Another spec may lay out as many bytes in another way.
  if (!saved.spec.empty() && saved.spec != tensor.codec.spec) {
    return Status(gwMismatch, {.message = "the saved state is of another codec",
                               .tensor = saved.name,
                               .hint = "Register the tensor with the spec it had when it was saved",
                               .field = "spec",
                               .expected = tensor.codec.spec + " (registered)",
                               .actual = saved.spec + " (saved)"});
  }
  if (HasRightLengths(saved, world_size)) return Status();
  return Corrupt("an array has another length than its tensor asks for");
}

// `registered`: by name. All that are saved are among them, in the same order.
template <typename Registered>
Status CheckAllAreSaved(const Registered& registered, const std::vector<SavedTensor>& all) {
  auto saved = all.begin();
  for (const auto& [name, tensor] : registered) {
    if (saved == all.end() || saved->name != name) {
      return Status(gwMismatch, {.message = "the state does not hold a tensor that is registered",
                                 .tensor = name,
                                 .hint = "Register the tensors that were saved before loading"});
    }
    ++saved;
  }
  return Status();
}

// Memory for what is to be restored. Unless it is kept, what is new of it goes again.
class Memory {
 public:
  ~Memory() {
    for (const std::function<void()>& release : releases_) release();
  }
  void Keep() { releases_.clear(); }

  Status Allocate(const SavedTensor& saved, bool transaction) {
    TensorState& tensor = *saved.tensor;
    GW_RETURN_IF_ERROR(Allocate(saved.residual, &tensor.residual, tensor.elems, transaction));
    GW_RETURN_IF_ERROR(
        Allocate(saved.replicated, &tensor.replicated, saved.replicated.size, kReplicatedSlots));
    return Allocate(saved.local, &tensor.local, tensor.elems, transaction);
  }

 private:
  template <typename Slots, typename Count>
  Status Allocate(ConstBytes saved, Slots* slots, int64_t size, Count count) {
    if (saved.empty() || slots->allocated()) return Status();
    releases_.push_back([slots] { slots->Release(); });
    return slots->Allocate(size, count);
  }

  std::vector<std::function<void()>> releases_;
};

template <typename Slots>
void RestoreOrRelease(ConstBytes saved, Slots* slots) {
  if (saved.empty()) {
    slots->Release();
  } else {
    slots->Restore(saved);
  }
}

void Restore(const SavedTensor& saved) {
  TensorState& tensor = *saved.tensor;
  tensor.committed_step = saved.committed_step;
  tensor.free_ops = saved.free_ops;
  tensor.fresh = tensor.sent_free = false;
  RestoreOrRelease(saved.residual, &tensor.residual);
  if (saved.replicated.empty()) {
    tensor.ReleaseReplicated();
  } else {
    tensor.replicated.Restore(saved.replicated);
  }
  RestoreOrRelease(saved.local, &tensor.local);
}

}  // namespace

int64_t TensorTable::SaveTo(Bytes to, int rank, int world_size, std::string_view controller) const {
  ByteWriter origin;
  origin.Put(kStateFormat, static_cast<int32_t>(rank), static_cast<int32_t>(world_size),
             static_cast<uint64_t>(tensors_.size()));
  const auto write = [&](StateWriter out) {
    out.PutMagic();
    out.PutPart(Kind::kOrigin, TextBytes(origin.bytes()));
    for (const auto& entry : tensors_) PutTensor(*entry.second, &out);
    out.PutPart(Kind::kEnd, TextBytes(controller));
    return out.size();
  };
  const int64_t size = write(StateWriter(nullptr));
  return to.size < size ? size : write(StateWriter(to.data));
}

std::string TensorTable::Save(int rank, int world_size, std::string_view controller) const {
  std::string saved(SaveTo({}, rank, world_size, controller), '\0');
  SaveTo({.data = reinterpret_cast<std::byte*>(saved.data()),
          .size = static_cast<int64_t>(saved.size())},
         rank, world_size, controller);
  return saved;
}

Status TensorTable::Load(ConstBytes bytes, int rank, int world_size, bool transaction,
                         std::string* controller) {
  const StatusOr<std::vector<Part>> parts = ReadParts(bytes);
  if (!parts.ok()) return parts.status();
  const StatusOr<Origin> origin = ReadOrigin(parts->front());
  if (!origin.ok()) return origin.status();
  std::vector<SavedTensor> all;
  for (size_t i = 1; i + 1 < parts->size(); ++i) GW_RETURN_IF_ERROR(Take((*parts)[i], &all));
  if (all.size() != origin->tensors) return Corrupt("tensors are missing");
  GW_RETURN_IF_ERROR(CheckOrigin(*origin, all, rank, world_size));
  for (SavedTensor& saved : all) {
    const auto it = tensors_.find(saved.name);
    if (it != tensors_.end()) saved.tensor = it->second.get();
    // The rung it will be on is not known yet; only the residual is of use whatever the codec.
    if (saved.tensor != nullptr && saved.tensor->automatic != nullptr) {
      saved.replicated = saved.local = {};
      saved.spec.clear();
    }
    GW_RETURN_IF_ERROR(Check(saved, world_size));
  }
  GW_RETURN_IF_ERROR(CheckAllAreSaved(tensors_, all));
  Memory memory;
  for (const SavedTensor& saved : all) GW_RETURN_IF_ERROR(memory.Allocate(saved, transaction));
  memory.Keep();
  for (const SavedTensor& saved : all) Restore(saved);
  if (controller != nullptr) *controller = BytesText(parts->back().content);
  return Status();
}

}  // namespace gradwire
