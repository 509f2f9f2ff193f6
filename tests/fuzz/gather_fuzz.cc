// What the ranks of topk(agreement=gather) send, from any bytes: [ranks, elements (2 bytes),
// payloads]. It is cut or filled up to the right size: what lies there is refused, or decodes to an
// output that is all NaN or has no more elements than all ranks together can send. Buffers are of
// exactly their size.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "base/workspace.h"
#include "compress/codecs/topk/topk_gather.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

constexpr size_t kHeadBytes = 3;
constexpr int kMaxRanks = 5;
constexpr double kDensity = 0.05;

const CarrierMethod& Method() {
  static const auto method = MakeTopkGather({.density = kDensity});
  return *method;
}

// A rank before it absorbs.
class Rank {
 public:
  Rank(int ranks, int64_t elems)
      : meta_{.elems = elems},
        ranks_(ranks),
        grad_(static_cast<size_t>(elems)),
        out_(static_cast<size_t>(elems)),
        e_out_(static_cast<size_t>(elems)),
        carrier_(static_cast<size_t>(Words())) {
    FUZZ_CHECK(workspace_.EnsureBytes(Method().WorkspaceBytes(meta_, ranks)).ok());
    for (size_t i = 0; i < grad_.size(); ++i) grad_[i] = static_cast<float>(i % 97) - 48;
    EncodeStats stats;
    StepView view = View();
    view.stats = &stats;
    FUZZ_CHECK(Method().Fill(0, view, {Bytes(carrier_), Words(), DType::kUint32}, nullptr).ok());
  }

  int64_t Words() const { return Method().Round(0, meta_, ranks_, {}, {}).elems; }
  const std::vector<uint32_t>& carrier() const { return carrier_; }
  const std::vector<float>& out() const { return out_; }

  Status Absorb(const std::vector<uint32_t>& gathered) {
    const ConstView view(reinterpret_cast<const std::byte*>(gathered.data()), Words() * ranks_,
                         DType::kUint32);
    return Method().Absorb(0, view, View(), nullptr);
  }

 private:
  template <typename T>
  static std::byte* Bytes(std::vector<T>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }
  StepView View() {
    return {.meta = meta_,
            .world_size = ranks_,
            .grad = {Bytes(grad_), meta_.elems, DType::kFloat32},
            .e_out = {Bytes(e_out_), meta_.elems, DType::kFloat32},
            .out = {Bytes(out_), meta_.elems, DType::kFloat32},
            .workspace = workspace_.bytes()};
  }

  const TensorMeta meta_;
  const int ranks_;
  std::vector<float> grad_, out_, e_out_;
  std::vector<uint32_t> carrier_;
  AlignedBuffer workspace_;
};

// What all ranks send, the first of them said not to be finite where asked for.
Input MakeSeed(uint8_t ranks, uint16_t elems, bool finite) {
  Input input = {ranks, static_cast<uint8_t>(elems), static_cast<uint8_t>(elems >> 8)};
  std::vector<uint32_t> carrier = Rank(ranks, elems).carrier();
  for (int rank = 0; rank < ranks; ++rank) {
    carrier[0] = rank == 0 && !finite ? 1 : 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(carrier.data());
    input.insert(input.end(), bytes, bytes + carrier.size() * sizeof(uint32_t));
  }
  return input;
}

void CheckOutput(const std::vector<float>& out, int ranks) {
  const auto is_nan = [](float v) { return std::isnan(v); };
  if (!out.empty() && std::all_of(out.begin(), out.end(), is_nan)) return;
  const auto sent = std::count_if(out.begin(), out.end(), [](float v) { return v != 0; });
  FUZZ_CHECK(sent <= ranks * std::llround(kDensity * static_cast<double>(out.size())));
}

}  // namespace

std::vector<Input> Seeds() {
  return {MakeSeed(1, 0, true), MakeSeed(2, 20, true), MakeSeed(3, 1000, true),
          MakeSeed(3, 1000, false), MakeSeed(5, 4097, true)};
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  const int ranks = 1 + (data[0] + kMaxRanks - 1) % kMaxRanks;
  const int64_t elems = data[1] + 256 * (data[2] % 32);
  Rank rank(ranks, elems);
  std::vector<uint32_t> gathered(static_cast<size_t>(rank.Words() * ranks));
  const size_t bytes = std::min(gathered.size() * sizeof(uint32_t), size - kHeadBytes);
  if (bytes > 0) std::memcpy(gathered.data(), data + kHeadBytes, bytes);
  const Status status = rank.Absorb(gathered);
  FUZZ_CHECK(status.ok() || status.code() == gwDataCorrupt);
  if (status.ok()) CheckOutput(rank.out(), ranks);
  return 0;
}
