// A step of every carrier method that is summed, with any damage to the sums and to the state:
// [spec, ranks, how, elements - 1 (2 bytes), damage]. All ranks run; the damage is added bit by bit
// to the state (how & 1), then to what the ranks really sum, round after round, so that what lies
// behind the first check is reached. With how & 2 there are residuals, with how & 4 in place;
// how / 8 chooses the type of gradients and results. All ranks accept with one result or refuse as
// data that is corrupt, the best SIMD target like the reference, and without damage they accept
// finite results. Buffers are of exactly their size.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/numeric.h"
#include "base/view.h"
#include "base/workspace.h"
#include "collectives/reduce/reduce.h"
#include "compress/kernels/dispatch.h"
#include "compress/registry.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr int kMaxRanks = 9;         // one more than speak in topk
constexpr int64_t kMaxElems = 1500;  // four blocks and a tail of every lane shape
constexpr uint8_t kDamagesState = 1, kHasResidual = 2, kInPlace = 4, kType = 8;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// Of the registry's, those that inputs which are kept name by number. Its others come behind these;
// one that an input names is added here.
constexpr const char* kSpecs[] = {"none",
                                  "qsgd(bits=2,sum=carrier)",
                                  "qsgd(bits=4,sum=carrier)",
                                  "qsgd(bits=8,sum=carrier)",
                                  "qsgd(bits=4,sum=carrier,feedback=on)",
                                  "terngrad",
                                  "terngrad(clip=0)",
                                  "signsgd",
                                  "signsgd(momentum=0.9)",
                                  "topk(density=0.1)",
                                  "topk(density=0.5)",
                                  "randk(density=0.1)",
                                  "randk(density=0.5,feedback=off)",
                                  "powersgd",
                                  "powersgd(rank=1)",
                                  "powersgd(start_step=1)",
                                  "acp",
                                  "acp(rank=1)",
                                  "acp(start_step=1)",
                                  "intsgd",
                                  "intsgd(bits=32)"};

// Behind kSpecs, all of the registry that is summed and not yet there.
std::vector<std::string> SummedSpecs() {
  std::vector<std::string> specs(std::begin(kSpecs), std::end(kSpecs));
  size_t found = 0;  // of kSpecs
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const Codec codec = *MakeCodec(spec);
      if (codec.carrier == nullptr) continue;
      if (codec.carrier->Gathers()) {
        FUZZ_CHECK(row.name == "topk");  // has gather_fuzz; another needs a target of its own
      } else if (std::find(std::begin(kSpecs), std::end(kSpecs), spec) != std::end(kSpecs)) {
        ++found;
      } else {
        specs.push_back(spec);
      }
    }
  }
  FUZZ_CHECK(found == std::size(kSpecs));
  return specs;
}

const std::vector<Codec>& SummedCodecs() {
  static const auto codecs = [] {
    std::vector<Codec> all;
    for (const std::string& spec : SummedSpecs()) all.push_back(*MakeCodec(spec));
    return all;
  }();
  return codecs;
}

struct Step {
  const CarrierMethod* method = nullptr;
  int ranks = 1;
  bool has_residual = false, feedback = false, in_place = false;
  std::vector<int64_t> shape;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;

  TensorMeta meta() const {
    return {.shape = shape, .elems = elems, .dtype = dtype, .has_residual = has_residual};
  }
};

// A matrix where the number of elements allows it.
std::vector<int64_t> ShapeOf(int64_t elems) {
  const int64_t rows = std::gcd(elems, 32);
  return rows > 1 ? std::vector{rows, elems / rows} : std::vector{elems};
}

// What is left of the input.
class Damage {
 public:
  Damage(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  void AddTo(Bytes bytes) {
    const Damage part = Take(static_cast<size_t>(bytes.size));
    for (size_t i = 0; i < part.left_; ++i) bytes.data[i] ^= static_cast<std::byte>(part.data_[i]);
  }
  // The next `size` bytes, as far as they are there.
  Damage Take(size_t size) {
    const Damage part(data_, std::min(left_, size));
    data_ += part.left_;
    left_ -= part.left_;
    return part;
  }
  bool any() const {
    return std::any_of(data_, data_ + left_, [](uint8_t b) { return b != 0; });
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

// A rank between the rounds.
class Rank {
 public:
  Rank(const Step& step, int rank, Damage state)
      : step_(step),
        grad_(static_cast<size_t>(step.elems * SizeOf(step.dtype))),
        out_(grad_.size()),
        e_in_(Elems(step.has_residual)),
        e_out_(Elems(step.has_residual && step.feedback && !step.in_place)),
        local_in_(Elems(step.method->KeepsLocal())),
        local_out_(local_in_.size()),
        replicated_in_(static_cast<size_t>(step.method->ReplicatedBytes(step.meta(), step.ranks))),
        replicated_out_(replicated_in_.size()) {
    state.AddTo(BytesOf(replicated_in_));
    std::vector<float> grad(Elems(true));  // that all types hold
    for (size_t i = 0; i < grad.size(); ++i) {
      grad[i] = static_cast<float>((i * 37 + static_cast<size_t>(rank) * 11) % 97) - 48;
    }
    ScaleInto(ViewOf(grad), 1, OfTensor(&grad_));
    std::fill(e_in_.begin(), e_in_.end(), 0.25f);
    FUZZ_CHECK(
        agreed_.EnsureBytes(AlignUp(step.method->AgreedBytes(step.meta(), step.ranks))).ok());
    FUZZ_CHECK(
        workspace_.EnsureBytes(AlignUp(step.method->WorkspaceBytes(step.meta(), step.ranks))).ok());
    view_ = {.meta = step_.meta(),
             .world_size = step.ranks,
             .grad = OfTensor(&grad_),
             .out_scale = 0.375f,
             .e_in = ViewOf(e_in_),
             .e_out = ViewOf(step.feedback && step.in_place ? e_in_ : e_out_),
             .replicated_in = BytesOf(replicated_in_),
             .replicated_out = BytesOf(replicated_out_),
             .local_in = ViewOf(local_in_),
             .local_out = ViewOf(local_out_),
             .out = OfTensor(&out_),
             .dither = {.rank = static_cast<uint32_t>(rank)},
             .agreed = agreed_.bytes(),
             .workspace = workspace_.bytes()};
  }

  RoundSpec Round(int round) const {
    return step_.method->Round(round, view_.meta, step_.ranks, view_.agreed, view_.replicated_in);
  }
  Input Fill(int round, const RoundSpec& spec) {
    Input carrier(static_cast<size_t>(spec.elems * SizeOf(spec.dtype)));
    EncodeStats stats;
    StepView view = view_;
    view.stats = &stats;
    const View to = {BytesOf(carrier).data, spec.elems, spec.dtype};
    FUZZ_CHECK(step_.method->Fill(round, view, to, nullptr).ok());
    return carrier;
  }
  gwResult_t Absorb(int round, const RoundSpec& spec, const Input& sum) {
    const ConstView from(reinterpret_cast<const std::byte*>(sum.data()), spec.elems, spec.dtype);
    return step_.method->Absorb(round, from, view_, nullptr).code();
  }

  std::vector<float> out() const {
    std::vector<float> floats(Elems(true));
    ScaleInto(view_.out, 1, ViewOf(floats));
    return floats;
  }
  const Input& replicated() const { return replicated_out_; }

 private:
  View OfTensor(Input* bytes) const { return {BytesOf(*bytes).data, step_.elems, step_.dtype}; }
  size_t Elems(bool used) const { return used ? static_cast<size_t>(step_.elems) : 0; }
  template <typename T>
  static Bytes BytesOf(std::vector<T>& values) {
    return {reinterpret_cast<std::byte*>(values.data()),
            static_cast<int64_t>(values.size() * sizeof(T))};
  }
  static View ViewOf(std::vector<float>& values) {
    return FloatView(values.data(), static_cast<int64_t>(values.size()));
  }

  const Step& step_;
  Input grad_, out_;
  std::vector<float> e_in_, e_out_, local_in_, local_out_;
  Input replicated_in_, replicated_out_;
  AlignedBuffer agreed_, workspace_;
  StepView view_;
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

Input SumOf(const Ranks& ranks, int round, const RoundSpec& spec) {
  Input sum = ranks[0]->Fill(round, spec);
  const auto bytes = static_cast<int64_t>(sum.size());
  auto* to = reinterpret_cast<std::byte*>(sum.data());
  for (size_t r = 1; r < ranks.size(); ++r) {
    const Input carrier = ranks[r]->Fill(round, spec);
    const auto* from = reinterpret_cast<const std::byte*>(carrier.data());
    ReduceInto(spec.dtype, spec.op, {to, bytes}, {from, bytes}, {to, bytes});
  }
  return sum;
}

// Bits of a NaN are nobody's promise.
bool SameNumbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, sizeof x) == 0;
  });
}

struct Verdict {
  gwResult_t code = gwSuccess;
  std::vector<float> out;  // empty after an error
};

gwResult_t RunRound(const Ranks& ranks, int round, Damage* damage) {
  const RoundSpec spec = ranks[0]->Round(round);
  Input sum = SumOf(ranks, round, spec);
  damage->AddTo({reinterpret_cast<std::byte*>(sum.data()), static_cast<int64_t>(sum.size())});
  const gwResult_t code = ranks[0]->Absorb(round, spec, sum);
  FUZZ_CHECK(code == gwSuccess || code == gwDataCorrupt);
  for (size_t r = 1; r < ranks.size(); ++r) FUZZ_CHECK(ranks[r]->Absorb(round, spec, sum) == code);
  return code;
}

Verdict RunOn(SimdTarget target, const Step& step, bool damages_state, Damage damage) {
  FUZZ_CHECK(ForceTargetForTest(Name(target)));
  const int64_t state_bytes = step.method->ReplicatedBytes(step.meta(), step.ranks);
  const Damage state = damage.Take(damages_state ? static_cast<size_t>(state_bytes) : 0);
  Ranks ranks;
  for (int r = 0; r < step.ranks; ++r) ranks.push_back(std::make_unique<Rank>(step, r, state));
  Verdict verdict;
  for (int round = 0; round < step.method->rounds() && verdict.code == gwSuccess; ++round) {
    verdict.code = RunRound(ranks, round, &damage);
  }
  if (verdict.code != gwSuccess) return verdict;
  verdict.out = ranks[0]->out();
  for (const auto& rank : ranks) {
    FUZZ_CHECK(SameNumbers(rank->out(), verdict.out));
    FUZZ_CHECK(rank->replicated() == ranks[0]->replicated());
  }
  return verdict;
}

}  // namespace

// Undamaged: all that is wrong with an input is what a mutation has put there.
std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (size_t method = 0; method < SummedCodecs().size(); ++method) {
    for (const int more : {0, 319, 899}) {  // than one element
      for (const uint8_t ranks : {1, 3, kMaxRanks}) {
        for (const uint8_t how : {kHasResidual, static_cast<uint8_t>(kHasResidual | kInPlace)}) {
          const size_t type = seeds.size() % std::size(kTypes);
          Input seed = {static_cast<uint8_t>(method), ranks,
                        static_cast<uint8_t>(how + kType * type), static_cast<uint8_t>(more),
                        static_cast<uint8_t>(more >> 8)};
          seed.resize(kHeadBytes + 256);
          seeds.push_back(std::move(seed));
        }
      }
    }
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  using namespace gradwire::fuzz;
  if (size < kHeadBytes) return 0;
  const Codec& codec = SummedCodecs()[data[0] % SummedCodecs().size()];
  Step step = {.method = codec.carrier.get(),
               .ranks = 1 + (data[1] + kMaxRanks - 1) % kMaxRanks,
               .has_residual = (data[2] & kHasResidual) != 0,
               .feedback = codec.feedback == Feedback::kOn,
               .in_place = (data[2] & kInPlace) != 0,
               // No slice has a piece of a tensor without elements.
               .elems = 1 + (data[3] | data[4] << 8) % kMaxElems,
               .dtype = kTypes[data[2] / kType % std::size(kTypes)]};
  step.shape = ShapeOf(step.elems);
  if (!step.method->Check(step.meta(), step.ranks).ok()) return 0;
  const bool damages_state = (data[2] & kDamagesState) != 0;
  const Damage damage(data + kHeadBytes, size - kHeadBytes);
  const Verdict reference = RunOn(SimdTarget::kScalar, step, damages_state, damage);
  const auto is_finite = [](float v) { return std::isfinite(v); };
  FUZZ_CHECK(damage.any() || (reference.code == gwSuccess &&
                              std::all_of(reference.out.begin(), reference.out.end(), is_finite)));
  const Verdict best = RunOn(SupportedTargets().back(), step, damages_state, damage);
  FUZZ_CHECK(best.code == reference.code && SameNumbers(best.out, reference.out));
  return 0;
}
