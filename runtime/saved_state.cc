// Tensors' state as bytes, and back.
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/byte_stream.h"
#include "base/crc.h"
#include "runtime/tensor_state.h"

namespace gradwire {
namespace {

constexpr uint32_t kStateMagic = 0x31535747;  // "GWS1"
constexpr uint32_t kStateVersion = 5;
constexpr int64_t kCrcBytes = sizeof(uint32_t);

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

void Write(const TensorState& tensor, ByteWriter* out) {
  out->PutText(tensor.name);
  out->Put(static_cast<int32_t>(tensor.dtype));
  out->Put(static_cast<uint32_t>(tensor.shape.size()));
  for (int64_t length : tensor.shape) out->Put(length);
  const bool codec_keeps = tensor.replicated.allocated() || tensor.local.allocated();
  out->PutText(codec_keeps ? tensor.kept_spec : "");
  out->Put(tensor.committed_step);
  out->Put(tensor.free_ops.load());
  out->PutBytes(tensor.residual.live().AsBytes());
  out->PutBytes(tensor.replicated.live());
  out->PutBytes(tensor.local.live().AsBytes());
}

SavedTensor Read(ByteReader* in) {
  SavedTensor saved;
  saved.name = in->GetText();
  saved.dtype = in->Get<int32_t>();
  for (auto dims = in->Get<uint32_t>(); dims > 0 && in->ok(); --dims) {
    saved.shape.push_back(in->Get<int64_t>());
  }
  saved.spec = in->GetText();
  saved.committed_step = in->Get<uint64_t>();
  saved.free_ops = in->Get<uint32_t>();
  saved.residual = in->GetBytes();
  saved.replicated = in->GetBytes();
  saved.local = in->GetBytes();
  return saved;
}

Status Corrupt(const char* what) {
  return Status(gwDataCorrupt, fmt::format("the saved state is damaged: {}", what),
                "Load the bytes exactly as gwStateSave wrote them");
}

// The bytes that the checksum is of.
StatusOr<ConstBytes> Checked(ConstBytes bytes) {
  if (bytes.size < kCrcBytes) return Corrupt("too short");
  const ConstBytes content = bytes.Sub(0, bytes.size - kCrcBytes);
  uint32_t crc = 0;
  std::memcpy(&crc, content.data + content.size, kCrcBytes);
  if (Crc32c(content.data, content.size) != crc) return Corrupt("wrong checksum");
  return content;
}

Status ReadHead(int rank, int world_size, ByteReader* in) {
  if (in->Get<uint32_t>() != kStateMagic) return Corrupt("not a gradwire state");
  const auto version = in->Get<uint32_t>();
  if (version != kStateVersion) {
    return Status(gwMismatch,
                  fmt::format("the state has format {}, not {}", version, kStateVersion),
                  "Load it with the version of gradwire that saved it");
  }
  const auto saved_rank = in->Get<int32_t>();
  const auto saved_size = in->Get<int32_t>();
  if (saved_rank == rank && saved_size == world_size) return Status();
  return Status(gwMismatch, {.message = "the state was saved by another rank",
                             .hint = "Load at the rank that saved it, in a job of the same size",
                             .field = "rank of world size",
                             .expected = fmt::format("{} of {}", rank, world_size),
                             .actual = fmt::format("{} of {}", saved_rank, saved_size)});
}

// No lengths but those that the tensor and its codec ask for.
bool HasRightLengths(const SavedTensor& saved, int world_size) {
  const TensorState& tensor = *saved.tensor;
  const int64_t float_bytes = tensor.elems * static_cast<int64_t>(sizeof(float));
  const bool codec_keeps = !saved.replicated.empty() || !saved.local.empty();
  return codec_keeps == !saved.spec.empty() &&
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
  const std::string mine = ShapeText(tensor.shape, tensor.dtype), theirs = ShapeTextOf(saved);
  if (mine != theirs) {
    return Status(gwMismatch, {.message = "the saved state is of another tensor",
                               .tensor = saved.name,
                               .hint = "Register the shapes and types that were saved",
                               .field = "shape",
                               .expected = mine,
                               .actual = theirs});
  }
  // Another spec may lay out as many bytes in another way.
  if (!saved.spec.empty() && saved.spec != tensor.codec.spec) {
    return Status(gwMismatch, {.message = "the saved state is of another codec",
                               .tensor = saved.name,
                               .hint = "Register the tensor with the spec it had when it was saved",
                               .field = "spec",
                               .expected = tensor.codec.spec,
                               .actual = saved.spec});
  }
  if (HasRightLengths(saved, world_size)) return Status();
  return Corrupt("an array has another length than its tensor asks for");
}

// Memory for what is to be restored.
Status Allocate(const SavedTensor& saved, bool transaction) {
  TensorState& tensor = *saved.tensor;
  if (!saved.residual.empty() && !tensor.residual.allocated()) {
    GW_RETURN_IF_ERROR(tensor.residual.Allocate(tensor.elems, transaction));
  }
  if (!saved.replicated.empty() && !tensor.replicated.allocated()) {
    GW_RETURN_IF_ERROR(tensor.replicated.Allocate(saved.replicated.size, kReplicatedSlots));
  }
  if (!saved.local.empty() && !tensor.local.allocated()) {
    GW_RETURN_IF_ERROR(tensor.local.Allocate(tensor.elems, transaction));
  }
  return Status();
}

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
  tensor.fresh = false;
  RestoreOrRelease(saved.residual, &tensor.residual);
  RestoreOrRelease(saved.replicated, &tensor.replicated);
  RestoreOrRelease(saved.local, &tensor.local);
}

}  // namespace

std::string TensorTable::Save(int rank, int world_size, std::string_view controller) const {
  ByteWriter out;
  out.Put(kStateMagic);
  out.Put(kStateVersion);
  out.Put(static_cast<int32_t>(rank));
  out.Put(static_cast<int32_t>(world_size));
  out.Put(static_cast<uint64_t>(tensors_.size()));
  for (const auto& entry : tensors_) Write(*entry.second, &out);
  out.PutText(controller);
  out.Put(Crc32c(out.bytes().data(), static_cast<int64_t>(out.bytes().size())));
  return std::move(out).Take();
}

Status TensorTable::Load(ConstBytes bytes, int rank, int world_size, bool transaction,
                         std::string* controller) {
  const StatusOr<ConstBytes> content = Checked(bytes);
  if (!content.ok()) return content.status();
  ByteReader in(*content);
  GW_RETURN_IF_ERROR(ReadHead(rank, world_size, &in));
  if (in.Get<uint64_t>() != tensors_.size()) {
    return Status(gwMismatch, "the state holds another number of tensors than are registered",
                  "Register the same tensors before loading");
  }
  std::vector<SavedTensor> all;
  while (all.size() < tensors_.size()) {
    SavedTensor saved = Read(&in);
    if (!in.ok()) return Corrupt("it ends early");
    // A name twice would leave another tensor out.
    if (!all.empty() && saved.name <= all.back().name) {
      return Corrupt("its tensors are out of order");
    }
    const auto it = tensors_.find(saved.name);
    if (it != tensors_.end()) saved.tensor = it->second.get();
    // The rung it will be on is not known yet; only the residual is of use whatever the codec.
    if (saved.tensor != nullptr && saved.tensor->automatic != nullptr) {
      saved.replicated = saved.local = {};
      saved.spec.clear();
    }
    GW_RETURN_IF_ERROR(Check(saved, world_size));
    all.push_back(std::move(saved));
  }
  std::string knowledge = in.GetText();
  if (!in.ok()) return Corrupt("it ends early");
  if (!in.at_end()) return Corrupt("bytes follow its end");
  // Memory first, so that a failure changes nothing that counts.
  for (const SavedTensor& saved : all) GW_RETURN_IF_ERROR(Allocate(saved, transaction));
  for (const SavedTensor& saved : all) Restore(saved);
  if (controller != nullptr) *controller = std::move(knowledge);
  return Status();
}

}  // namespace gradwire
