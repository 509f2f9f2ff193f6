// What the ranks of topk(agreement=gather) send, from any bytes: [ranks, elements (2 bytes), how,
// payloads]. With how & 1 there is momentum, with how & 2 a warm-up, in which how / 4 steps have
// been committed. It is cut or filled up to the right size: what lies there is refused, or decodes
// to an output that is all NaN or has no more elements than all ranks together can send. What a
// rank keeps stays finite, and is as it was where the output is NaN. Buffers are of exactly their
// size.

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

constexpr size_t kHeadBytes = 4;
constexpr int kMaxRanks = 5;
constexpr double kDensity = 0.05, kFirstDensity = 0.25;  // of a warm-up
constexpr int64_t kWarmupSteps = 2;

class How {
 public:
  explicit How(uint8_t how) : how_(how) {}

  bool has_momentum() const { return (how_ & 1) != 0; }
  bool warms_up() const { return (how_ & 2) != 0; }
  uint32_t steps() const { return how_ / 4; }
  double most() const { return warms_up() ? kFirstDensity : kDensity; }

  const CarrierMethod& Method() const {
    static const auto methods = [] {
      std::vector<std::shared_ptr<const CarrierMethod>> all;
      for (const int64_t warmup_steps : {int64_t{0}, kWarmupSteps}) {
        for (const float momentum : {0.0f, 0.9f}) {
          all.push_back(MakeTopkGather(
              {.density = kDensity, .momentum = momentum, .warmup_steps = warmup_steps}));
        }
      }
      return all;
    }();
    return *methods[how_ % 4];
  }

 private:
  const uint8_t how_;
};

std::vector<float> Ramp(int64_t elems, int64_t modulus) {
  std::vector<float> values(static_cast<size_t>(elems));
  for (int64_t i = 0; i < elems; ++i) {
    values[i] = static_cast<float>(i % modulus - modulus / 2);
  }
  return values;
}

// A rank before it absorbs.
class Rank {
 public:
  Rank(int ranks, int64_t elems, How how)
      : how_(how),
        meta_{.elems = elems},
        ranks_(ranks),
        grad_(Ramp(elems, 97)),
        out_(grad_.size()),
        e_out_(grad_.size()),
        local_in_(Ramp(how.has_momentum() ? elems : 0, 53)),
        local_out_(local_in_.size()),
        state_in_(how.warms_up() ? 1 : 0, how.steps()),
        state_out_(state_in_.size()),
        carrier_(static_cast<size_t>(Words())) {
    FUZZ_CHECK(workspace_.EnsureBytes(how.Method().WorkspaceBytes(meta_, ranks)).ok());
    EncodeStats stats;
    StepView view = View();
    view.stats = &stats;
    FUZZ_CHECK(
        how.Method().Fill(0, view, {Bytes(carrier_), Words(), DType::kUint32}, nullptr).ok());
  }

  int64_t Words() const { return how_.Method().Round(0, meta_, ranks_, {}, ReplicatedIn()).elems; }
  const std::vector<uint32_t>& carrier() const { return carrier_; }
  const std::vector<float>& out() const { return out_; }

  Status Absorb(const std::vector<uint32_t>& gathered) {
    const ConstView view(reinterpret_cast<const std::byte*>(gathered.data()), Words() * ranks_,
                         DType::kUint32);
    return how_.Method().Absorb(0, view, View(), nullptr);
  }

  // After a step that was accepted.
  void CheckKept(bool finite) const {
    const auto is_finite = [](float v) { return std::isfinite(v); };
    FUZZ_CHECK(std::all_of(e_out_.begin(), e_out_.end(), is_finite));
    FUZZ_CHECK(std::all_of(local_out_.begin(), local_out_.end(), is_finite));
    if (!finite) FUZZ_CHECK(local_out_ == local_in_);
    for (const uint32_t steps : state_out_) FUZZ_CHECK(steps == how_.steps() + (finite ? 1 : 0));
  }

 private:
  template <typename T>
  static std::byte* Bytes(std::vector<T>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }
  ConstBytes ReplicatedIn() const {
    return {reinterpret_cast<const std::byte*>(state_in_.data()),
            static_cast<int64_t>(state_in_.size() * sizeof(uint32_t))};
  }
  StepView View() {
    const auto local_elems = static_cast<int64_t>(local_in_.size());
    return {.meta = meta_,
            .world_size = ranks_,
            .grad = {Bytes(grad_), meta_.elems, DType::kFloat32},
            .e_out = {Bytes(e_out_), meta_.elems, DType::kFloat32},
            .replicated_in = ReplicatedIn(),
            .replicated_out = {Bytes(state_out_), ReplicatedIn().size},
            .local_in = {Bytes(local_in_), local_elems, DType::kFloat32},
            .local_out = {Bytes(local_out_), local_elems, DType::kFloat32},
            .out = {Bytes(out_), meta_.elems, DType::kFloat32},
            .workspace = workspace_.bytes()};
  }

  const How how_;
  const TensorMeta meta_;
  const int ranks_;
  std::vector<float> grad_, out_, e_out_, local_in_, local_out_;
  std::vector<uint32_t> state_in_, state_out_, carrier_;
  AlignedBuffer workspace_;
};

// What all ranks send, the first of them said not to be finite where asked for.
Input MakeSeed(uint8_t ranks, uint16_t elems, uint8_t how, bool finite = true) {
  Input input = {ranks, static_cast<uint8_t>(elems), static_cast<uint8_t>(elems >> 8), how};
  std::vector<uint32_t> carrier = Rank(ranks, elems, How(how)).carrier();
  for (int rank = 0; rank < ranks; ++rank) {
    carrier[0] = rank == 0 && !finite ? 1 : 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(carrier.data());
    input.insert(input.end(), bytes, bytes + carrier.size() * sizeof(uint32_t));
  }
  return input;
}

void CheckOutput(const std::vector<float>& out, bool finite, int ranks, How how) {
  if (!finite) {
    FUZZ_CHECK(std::all_of(out.begin(), out.end(), [](float v) { return std::isnan(v); }));
    return;
  }
  const auto sent = std::count_if(out.begin(), out.end(), [](float v) { return v != 0; });
  FUZZ_CHECK(sent <= ranks * std::llround(how.most() * static_cast<double>(out.size())));
}

}  // namespace

std::vector<Input> Seeds() {
  constexpr uint8_t kPlain = 0, kMomentum = 1, kWarmup = 2, kBoth = 3, kStep = 4;
  std::vector<Input> seeds = {MakeSeed(1, 0, kPlain), MakeSeed(2, 20, kPlain),
                              MakeSeed(5, 4097, kPlain), MakeSeed(3, 1000, kMomentum),
                              MakeSeed(2, 0, kBoth)};
  for (uint8_t how = kPlain; how <= kBoth; ++how) seeds.push_back(MakeSeed(3, 1000, how, false));
  // At each density of the warm-up, and after it.
  for (const uint8_t steps : {0, 1, 2, 4, 63}) {
    seeds.push_back(MakeSeed(3, 1000, kWarmup + kStep * steps));
    seeds.push_back(MakeSeed(2, 1000, kBoth + kStep * steps));
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  const int ranks = 1 + (data[0] + kMaxRanks - 1) % kMaxRanks;
  const int64_t elems = data[1] + 256 * (data[2] % 32);
  const How how(data[3]);
  Rank rank(ranks, elems, how);
  std::vector<uint32_t> gathered(static_cast<size_t>(rank.Words() * ranks));
  const size_t bytes = std::min(gathered.size() * sizeof(uint32_t), size - kHeadBytes);
  if (bytes > 0) std::memcpy(gathered.data(), data + kHeadBytes, bytes);
  const Status status = rank.Absorb(gathered);
  FUZZ_CHECK(status.ok() || status.code() == gwDataCorrupt);
  if (!status.ok()) return 0;
  bool finite = true;  // as each rank says of itself
  for (int r = 0; r < ranks; ++r) finite &= gathered[static_cast<size_t>(r * rank.Words())] == 0;
  CheckOutput(rank.out(), finite, ranks, how);
  rank.CheckKept(finite);
  return 0;
}
