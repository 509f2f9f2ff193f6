// A block is an index list, compress/kernels/index_list, then the values, float32. Of a block that
// is not finite the indices are the first, and all values the NaN.
#include "compress/codecs/topk/topk_payload.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/codec_args.h"
#include "compress/codecs/sparse_carrier.h"
#include "compress/kernels/index_list/index_list.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk.h"

namespace gradwire {
namespace {

constexpr int64_t kValueBytes = sizeof(float);

// What is selected of one block.
class Selected {
 public:
  explicit Selected(int64_t count) : count_(static_cast<size_t>(count)) {}

  std::span<uint32_t> indices() { return {indices_, count_}; }
  std::span<float> values() { return {values_, count_}; }

  // As a block that is not finite has them.
  void Spoil() {
    std::iota(indices_, indices_ + count_, 0u);
    std::fill(values_, values_ + count_, std::bit_cast<float>(kNanBits));
  }
  bool IsSpoilt() {
    return std::all_of(values_, values_ + count_,
                       [](float v) { return std::bit_cast<uint32_t>(v) == kNanBits; }) &&
           indices_[count_ - 1] == count_ - 1;
  }
  bool IsFinite() {
    return std::all_of(values_, values_ + count_, [](float v) { return std::isfinite(v); });
  }

 private:
  const size_t count_;
  uint32_t indices_[kTopkBlockElems];
  float values_[kTopkBlockElems];
};

class TopkPayload final : public CpuCodec {
 public:
  explicit TopkPayload(double density) : density_(density) {}

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.contractive = true, .quantum_elems = kTopkBlockElems};
    return kTraits;
  }

  int64_t MaxBytes(int64_t elems) const override {
    return elems / kTopkBlockElems * BlockBytes(kTopkBlockElems) +
           BlockBytes(elems % kTopkBlockElems);
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
    ForBlocks(job.elems, [&](int64_t first, int64_t elems, int64_t bytes) {
      EncodeBlock(job.Sub(first, elems, bytes));
    });
  }
  bool RunDecode(const DecodeJob& job) const override {
    bool written_so = true;
    ForBlocks(job.elems, [&](int64_t first, int64_t elems, int64_t bytes) {
      written_so = written_so && DecodeBlock(job.Sub(first, elems, bytes));
    });
    return written_so;
  }

  void EncodeBlock(const EncodeJob& block) const {
    Selected selected(Count(block.elems));
    alignas(64) std::byte workspace[40 * 1024];
    assert(TopkWorkspaceBytes(kTopkBlockElems, kTopkBlockElems) <= int64_t{sizeof(workspace)});
    const bool finite = SelectTopk({.grad = block.grad,
                                    .dtype = block.dtype,
                                    .in_scale = block.in_scale,
                                    .e_in = block.e_in,
                                    .elems = block.elems},
                                   {workspace, sizeof(workspace)}, selected.indices());
    if (finite) {
      SplitInput(block, selected.indices(), 1, selected.values().data());
    } else {
      for (int64_t i = 0; i < block.elems; ++i) {
        ref::FinishNonFinite(block, i, ref::Input(block, i));
      }
      selected.Spoil();
    }
    EncodeIndexList(selected.indices(), block.elems, block.out);
    std::memcpy(block.out + IndexListBytes(block.elems, Count(block.elems)),
                selected.values().data(), selected.values().size_bytes());
  }

  bool DecodeBlock(const DecodeJob& block) const {
    Selected selected(Count(block.elems));
    const int64_t list_bytes = IndexListBytes(block.elems, Count(block.elems));
    if (!DecodeIndexList({block.payload, list_bytes}, block.elems, selected.indices()).ok()) {
      return false;
    }
    std::memcpy(selected.values().data(), block.payload + list_bytes,
                selected.values().size_bytes());
    if (selected.IsSpoilt()) {
      Spoil(block);
      return true;
    }
    if (!selected.IsFinite()) return false;
    Scatter(block, selected.indices(), selected.values().data());
    return true;
  }

  const double density_;
};

}  // namespace

std::shared_ptr<const PayloadCodec> MakeTopkPayload(double density) {
  return std::make_shared<TopkPayload>(density);
}

}  // namespace gradwire
