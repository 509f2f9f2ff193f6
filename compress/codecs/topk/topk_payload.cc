// A block is an index list, compress/kernels/index_list, then the values, float32. Of a block that
// is not finite the indices are the first, and all values the NaN.
#include "compress/codecs/topk/topk_payload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/codec_args.h"
#include "compress/codecs/sparse_carrier.h"
#include "compress/kernels/index_list/index_list.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk.h"

namespace gradwire {
namespace {

constexpr int64_t kValueBytes = sizeof(float);
constexpr int64_t kSelectedBytes = sizeof(uint32_t) + kValueBytes;

// What an encoding needs of the workspace, for one block after the other.
struct Scratch {
  std::span<uint32_t> indices;  // of what is selected
  std::span<float> values;
  Bytes search;

  static int64_t BytesFor(int64_t elems, int64_t count) {
    return count * kSelectedBytes + TopkWorkspaceBytes(elems, count);
  }
  Scratch(Bytes workspace, int64_t count)
      : indices(reinterpret_cast<uint32_t*>(workspace.data), static_cast<size_t>(count)),
        values(reinterpret_cast<float*>(indices.data() + count), static_cast<size_t>(count)),
        search(workspace.Sub(count * kSelectedBytes, workspace.size - count * kSelectedBytes)) {}

  // The values at the indices; p keeps the others.
  void TakeFrom(float* p) {
    for (size_t j = 0; j < indices.size(); ++j) values[j] = std::exchange(p[indices[j]], 0.0f);
  }

  // As a block that is not finite has them.
  void Spoil() {
    std::iota(indices.begin(), indices.end(), 0u);
    std::fill(values.begin(), values.end(), std::bit_cast<float>(kNanBits));
  }
};

// The values of a block on the wire, of any alignment.
class WireValues {
 public:
  WireValues(const std::byte* data, int64_t count) : data_(data), count_(count) {}

  bool AreFinite() const {
    return AllOf([](float v) { return ref::IsFinite(v); });
  }
  bool AreSpoilt() const {
    return AllOf([](float v) { return std::bit_cast<uint32_t>(v) == kNanBits; });
  }
  const std::byte* data() const { return data_; }

 private:
  template <typename Is>
  bool AllOf(Is is) const {
    for (int64_t j = 0; j < count_; ++j) {
      if (!is(ref::LoadAs<float>(data_ + kValueBytes * j))) return false;
    }
    return true;
  }

  const std::byte* const data_;
  const int64_t count_;
};

class TopkPayload final : public CpuCodec {
 public:
  explicit TopkPayload(double density) : density_(density) {}

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.contractive = true, .quantum_elems = kTopkBlockElems};
    return kTraits;
  }

  // Of a short block at the end of a tensor one element is sent where the density selects none;
  // where that is the whole tensor, the density is not what was meant.
  Status Check(int64_t elems) const override { return CheckDensity(density_, elems); }

  int64_t MaxBytes(int64_t elems) const override {
    return elems / kTopkBlockElems * BlockBytes(kTopkBlockElems) +
           BlockBytes(elems % kTopkBlockElems);
  }
  int64_t WorkspaceBytes(int64_t elems) const override {
    const int64_t longest = std::min(elems, kTopkBlockElems);
    return Scratch::BytesFor(longest, Count(longest));
  }

 private:
  int64_t Count(int64_t block_elems) const {
    return std::min(std::max(SelectedElems(density_, block_elems), int64_t{1}), block_elems);
  }
  int64_t BlockBytes(int64_t elems) const {
    const int64_t count = Count(elems);
    return IndexListBytes(elems, count) + count * kValueBytes;
  }

  // Calls `block` with first element, elements and first byte of each.
  template <typename Block>
  void ForBlocks(int64_t elems, Block block) const {
    const int64_t bytes = BlockBytes(kTopkBlockElems);
    for (int64_t first = 0; first < elems; first += kTopkBlockElems) {
      block(first, std::min(kTopkBlockElems, elems - first), first / kTopkBlockElems * bytes);
    }
  }

  void RunEncode(const EncodeJob& job) const override {
    TopkHint hint;
    ForBlocks(job.elems, [&](int64_t first, int64_t elems, int64_t bytes) {
      EncodeBlock(job.Sub(first, elems, bytes), &hint);
    });
  }
  bool RunDecode(const DecodeJob& job) const override {
    bool written_so = true;
    ForBlocks(job.elems, [&](int64_t first, int64_t elems, int64_t bytes) {
      written_so = written_so && DecodeBlock(job.Sub(first, elems, bytes));
    });
    return written_so;
  }

  void EncodeBlock(const EncodeJob& block, TopkHint* hint) const {
    const int64_t count = Count(block.elems);
    Scratch scratch(block.workspace, count);
    // Takes p where there is no residual, or one in place, which p must not replace before it is
    // known to be finite.
    float memory[kTopkBlockElems];
    const bool has_slot = block.e_out != nullptr && block.e_out != block.e_in;
    EncodeStats stats;
    InputJob input = block;
    input.e_out = has_slot ? block.e_out : memory;
    input.stats = &stats;
    if (SelectTopk(input, scratch.search, scratch.indices, hint)) {
      scratch.TakeFrom(input.e_out);
      if (!has_slot && block.e_out != nullptr) std::copy_n(memory, block.elems, block.e_out);
      block.stats->sum_err2 += EnergyOf(input.e_out, block.elems);
    } else {
      if (has_slot) KeepResidual(block);
      scratch.Spoil();
    }
    AddCounted(stats, block.stats);
    EncodeIndexList(scratch.indices, block.elems, block.out);
    std::memcpy(block.out + IndexListBytes(block.elems, count), scratch.values.data(),
                scratch.values.size_bytes());
  }

  // Of a block that is not finite, in a slot of its own.
  static void KeepResidual(const EncodeJob& block) {
    if (block.e_in == nullptr) {
      std::fill_n(block.e_out, block.elems, 0.0f);
    } else {
      std::copy_n(block.e_in, block.elems, block.e_out);
    }
  }

  bool DecodeBlock(const DecodeJob& block) const {
    const int64_t count = Count(block.elems);
    const int64_t list_bytes = IndexListBytes(block.elems, count);
    uint32_t memory[kTopkBlockElems];
    const std::span<uint32_t> indices(memory, static_cast<size_t>(count));
    if (!DecodeIndexList({block.payload, list_bytes}, block.elems, indices).ok()) return false;
    const WireValues values(block.payload + list_bytes, count);
    if (values.AreSpoilt() && indices.back() == count - 1) {
      Spoil(block);
      return true;
    }
    if (!values.AreFinite()) return false;
    Scatter(block, indices, values.data());
    return true;
  }

  const double density_;
};

}  // namespace

std::shared_ptr<const PayloadCodec> MakeTopkPayload(double density) {
  return std::make_shared<TopkPayload>(density);
}

}  // namespace gradwire
