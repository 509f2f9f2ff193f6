#include "tests/conformance/carrier_world.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/workspace.h"
#include "collectives/reduce/reduce.h"
#include "compress/kernels/dispatch.h"
#include "tests/lib/guarded_buffer.h"

namespace gradwire {
namespace {

// A rank between the rounds.
class Rank {
 public:
  Rank(const CarrierMethod& method, const EncodeCase& c, int rank, int world_size, float out_scale)
      : method_(method),
        case_(c),
        world_size_(world_size),
        grad_(static_cast<int64_t>(c.grad.size())),
        out_(static_cast<int64_t>(c.grad.size())),
        e_in_(ResidualBytes()),
        e_out_(c.mode == ResidualMode::kSeparate ? ResidualBytes() : 0),
        agreed_(AlignUp(method.AgreedBytes(Meta(), world_size))),
        workspace_(AlignUp(method.WorkspaceBytes(Meta(), world_size))),
        replicated_in_(method.ReplicatedBytes(Meta(), world_size)),
        replicated_out_(replicated_in_.size()),
        local_in_(method.KeepsLocal() ? 4 * c.elems() : 0),
        local_out_(c.local_in_place ? 0 : local_in_.size()) {
    if (replicated_in_.size() > 0) {
      std::memset(replicated_in_.data(), 0, static_cast<size_t>(replicated_in_.size()));
      if (!c.replicated.empty()) {
        EXPECT_EQ(static_cast<int64_t>(c.replicated.size()), replicated_in_.size());
        std::memcpy(replicated_in_.data(), c.replicated.data(), c.replicated.size());
      }
    }
    if (grad_.size() > 0) std::memcpy(grad_.data(), c.grad.data(), c.grad.size());
    if (e_in_.size() > 0)
      std::memcpy(e_in_.data(), c.e_in.data(), static_cast<size_t>(e_in_.size()));
    view_ = {.meta = Meta(),
             .world_size = world_size,
             .grad = {grad_.data(), c.elems(), c.dtype},
             .in_scale = c.in_scale,
             .out_scale = out_scale,
             .replicated_in = {replicated_in_.data(), replicated_in_.size()},
             .replicated_out = {replicated_out_.data(), replicated_out_.size()},
             .out = {(c.out_over_grad ? grad_ : out_).data(), c.elems(), c.dtype},
             .dither = c.dither,
             .agreed = {agreed_.data(), agreed_.size()},
             .workspace = {workspace_.data(), workspace_.size()}};
    view_.dither.rank = static_cast<uint32_t>(rank);
    if (local_in_.size() > 0) SetLocal();
    if (HasResidual(c.mode)) view_.e_in = {e_in_.data(), c.elems(), DType::kFloat32};
    if (!KeepsBack(c.mode)) return;
    view_.e_out = {(c.mode == ResidualMode::kSeparate ? e_out_ : e_in_).data(), c.elems(),
                   DType::kFloat32};
  }

  RoundSpec Round(int round) const {
    const RoundSpec spec =
        method_.Round(round, Meta(), world_size_, view_.agreed, view_.replicated_in);
    if (!method_.SizesDependOnData()) {
      EXPECT_EQ(spec.elems,
                method_.Round(round, Meta(), world_size_, {}, view_.replicated_in).elems);
    }
    return spec;
  }

  const std::vector<std::byte>& Fill(int round) {
    const RoundSpec spec = Round(round);
    const GuardedBuffer carrier(spec.elems * SizeOf(spec.dtype));
    view_.stats = &result_.stats;
    const Status status =
        method_.Fill(round, view_, {carrier.data(), spec.elems, spec.dtype}, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(carrier.intact() && workspace_.intact() && e_out_.intact() && e_in_.intact());
    EXPECT_TRUE(replicated_out_.intact() && local_in_.intact() && local_out_.intact());
    result_.filled.emplace_back(carrier.data(), carrier.data() + carrier.size());
    return result_.filled.back();
  }

  void Absorb(int round, const std::vector<std::byte>& reduced) {
    const RoundSpec spec = Round(round);
    const GuardedBuffer carrier(static_cast<int64_t>(reduced.size()));
    view_.stats = nullptr;
    if (!reduced.empty()) std::memcpy(carrier.data(), reduced.data(), reduced.size());
    const Status status = method_.Absorb(
        round, {carrier.data(), carrier.size() / SizeOf(spec.dtype), spec.dtype}, view_, nullptr);
    EXPECT_TRUE(grad_.intact() && out_.intact() && agreed_.intact() && workspace_.intact());
    EXPECT_TRUE(replicated_out_.intact() && local_in_.intact() && local_out_.intact());
    if (result_.absorbed.ok()) result_.absorbed = status;
  }

  CarrierRank Take() {
    if (!case_.out_over_grad) {
      EXPECT_TRUE(std::equal(case_.grad.begin(), case_.grad.end(), grad_.data()));
    }
    const auto* out = static_cast<const std::byte*>(view_.out.data);
    result_.out.assign(out, out + view_.out.bytes());
    result_.replicated.assign(replicated_out_.data(),
                              replicated_out_.data() + replicated_out_.size());
    const auto* local = reinterpret_cast<const float*>(view_.local_out.data);
    result_.local.assign(local, local + view_.local_out.elems);
    if (!KeepsBack(case_.mode)) return std::move(result_);
    result_.e_out.resize(static_cast<size_t>(case_.elems()));
    if (!result_.e_out.empty())
      std::memcpy(result_.e_out.data(), view_.e_out.data, static_cast<size_t>(view_.e_out.bytes()));
    return std::move(result_);
  }

 private:
  TensorMeta Meta() const {
    return {.shape = case_.shape,
            .elems = case_.elems(),
            .dtype = case_.dtype,
            .has_residual = HasResidual(case_.mode)};
  }
  int64_t ResidualBytes() const { return HasResidual(case_.mode) ? 4 * case_.elems() : 0; }

  void SetLocal() {
    auto* local = reinterpret_cast<float*>(local_in_.data());
    std::fill_n(local, case_.elems(), 0.0f);
    std::copy(case_.local.begin(), case_.local.end(), local);
    const GuardedBuffer& out = case_.local_in_place ? local_in_ : local_out_;
    view_.local_in = {local_in_.data(), case_.elems(), DType::kFloat32};
    view_.local_out = {out.data(), case_.elems(), DType::kFloat32};
  }

  const CarrierMethod& method_;
  const EncodeCase& case_;
  const int world_size_;
  const GuardedBuffer grad_, out_, e_in_, e_out_, agreed_, workspace_;
  const GuardedBuffer replicated_in_, replicated_out_;
  const GuardedBuffer local_in_, local_out_;
  StepView view_;
  CarrierRank result_;
};

using Carriers = std::vector<std::vector<std::byte>>;  // by rank

std::vector<std::byte> Join(const Carriers& filled) {
  std::vector<std::byte> all;
  for (const auto& carrier : filled) all.insert(all.end(), carrier.begin(), carrier.end());
  return all;
}

std::vector<std::byte> Sum(const RoundSpec& spec, const Carriers& filled, const SumOrder& order) {
  std::vector<std::byte> sum = filled[order[0]];
  const auto bytes = static_cast<int64_t>(sum.size());
  for (size_t i = 1; i < filled.size(); ++i) {
    ReduceInto(spec.dtype, spec.op, {sum.data(), bytes}, {filled[order[i]].data(), bytes},
               {sum.data(), bytes});
  }
  return sum;
}

}  // namespace

SumOrder InOrder(int ranks) {
  SumOrder order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<CarrierRank> RunCarriers(const CarrierMethod& method,
                                     const std::vector<EncodeCase>& cases, const SumOrder& order,
                                     float out_scale, const Damage& damage) {
  const int n = static_cast<int>(cases.size());
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < n; ++r) {
    ranks.push_back(std::make_unique<Rank>(method, cases[r], r, n, out_scale));
  }
  for (int round = 0; round < method.rounds(); ++round) {
    const RoundSpec spec = ranks[0]->Round(round);
    std::vector<std::vector<std::byte>> filled;
    for (auto& rank : ranks) filled.push_back(rank->Fill(round));
    std::vector<std::byte> sum = method.Gathers() ? Join(filled) : Sum(spec, filled, order);
    if (damage) damage(round, &sum);
    for (auto& rank : ranks) rank->Absorb(round, sum);
  }
  std::vector<CarrierRank> results;
  for (auto& rank : ranks) results.push_back(rank->Take());
  return results;
}

void TakeStep(const std::vector<CarrierRank>& results, std::vector<EncodeCase>* cases) {
  for (size_t r = 0; r < results.size(); ++r) {
    EncodeCase& c = (*cases)[r];
    if (KeepsBack(c.mode)) {
      c.e_in = results[r].e_out;
    } else {
      c.mode = ResidualMode::kNone;
    }
    c.replicated = results[r].replicated;
    c.local = results[r].local;
    ++c.dither.step;
  }
}

CarrierRank RunCarrier(const CarrierMethod& method, const EncodeCase& c, int rank, int world_size,
                       const AddCarriers& add) {
  Rank self(method, c, rank, world_size, 1.0f);
  for (int round = 0; round < method.rounds(); ++round) {
    const RoundSpec spec = self.Round(round);
    self.Absorb(round, add(spec, self.Fill(round)));
  }
  return self.Take();
}

void CheckSame(const std::vector<CarrierRank>& expected, const std::vector<CarrierRank>& actual) {
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(expected[r].filled, actual[r].filled) << "rank " << r;
    ASSERT_EQ(expected[r].out, actual[r].out) << "rank " << r;
    ASSERT_EQ(expected[r].replicated, actual[r].replicated) << "rank " << r;
    ASSERT_TRUE(SameBits(expected[r].e_out, actual[r].e_out)) << "rank " << r;
    ASSERT_TRUE(SameBits(expected[r].local, actual[r].local)) << "rank " << r;
    const EncodeStats &a = expected[r].stats, &b = actual[r].stats;
    ASSERT_EQ(a.nonfinite, b.nonfinite);
    ASSERT_EQ(a.bytes, b.bytes);
    ASSERT_EQ(BitsOf(a.absmax), BitsOf(b.absmax));
    ASSERT_NEAR(a.sum_p2, b.sum_p2, 1e-5 * a.sum_p2);
    // Of methods that select it is the difference of two sums over float32 lanes.
    ASSERT_NEAR(a.sum_err2, b.sum_err2, 1e-4 * a.sum_err2 + 1e-6 * a.sum_p2);
  }
}

std::vector<CodecOnTarget> AllCarriersOnTargets() {
  std::vector<CodecOnTarget> all;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (MakeCodec(spec)->carrier == nullptr) continue;
      for (SimdTarget target : SupportedTargets()) all.push_back({spec, std::string(Name(target))});
    }
  }
  return all;
}

}  // namespace gradwire
