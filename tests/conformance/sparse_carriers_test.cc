// What the methods that send a few elements promise, on every SIMD target: which elements they
// send, that all others are kept back, and how much that is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "compress/codecs/randk/randk_codec.h"
#include "compress/codecs/topk/topk_codec.h"
#include "compress/kernels/dispatch.h"
#include "tests/conformance/carrier_world.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

const char* const kSpecs[] = {"randk(density=0.1)", "randk(density=0.3,feedback=off)",
                              "topk(density=0.1)", "topk(density=1)"};

Codec CodecOf(const std::string& spec) {
  const SpecText text = *ParseSpecText(spec);
  return *(text.name == "randk" ? RandkRow() : TopkRow()).make(text);
}
std::shared_ptr<const CarrierMethod> MethodOf(const std::string& spec) {
  return CodecOf(spec).carrier;
}
bool HasFeedback(const std::string& spec) { return CodecOf(spec).feedback == Feedback::kOn; }

std::vector<float> FloatsOf(const std::vector<std::byte>& bytes) {
  std::vector<float> floats(bytes.size() / 4);
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::vector<std::byte> BytesOf(const std::vector<float>& floats) {
  std::vector<std::byte> bytes(4 * floats.size());
  if (!floats.empty()) std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

// The replicated state of topk.
struct TopkState {
  uint32_t quota = 0, first_speaker = 0;
};

std::vector<std::byte> BytesOf(const TopkState& state) {
  std::vector<std::byte> bytes(sizeof(state));
  std::memcpy(bytes.data(), &state, sizeof(state));
  return bytes;
}

TopkState TopkStateOf(const CarrierRank& rank) {
  TopkState state;
  EXPECT_EQ(rank.replicated.size(), sizeof(state));
  std::memcpy(&state, rank.replicated.data(), sizeof(state));
  return state;
}

double Energy(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

class SparseCarriers : public ::testing::TestWithParam<SimdTarget> {
 protected:
  SparseCarriers() : random_(TestSeed()), trace_(__FILE__, __LINE__, TestSeedText()) {
    EXPECT_TRUE(ForceTargetForTest(Name(GetParam())));
  }
  ~SparseCarriers() override { ForceTargetForTest(""); }

  Dither NewDither() {
    return {.seed = static_cast<uint32_t>(random_()),
            .tensor = random_(),
            .step = static_cast<uint32_t>(random_())};
  }

  std::vector<EncodeCase> Cases(Kind kind, int ranks, int64_t elems, DType dtype,
                                ResidualMode mode) {
    const Dither dither = NewDither();
    std::vector<EncodeCase> cases;
    for (int r = 0; r < ranks; ++r) {
      EncodeCase c{.dtype = dtype, .mode = mode, .dither = dither, .shape = {elems}};
      c.grad = MakeGrad(kind, elems, dtype, &random_);
      c.e_in = MakeResidual(elems, &random_);
      cases.push_back(std::move(c));
    }
    return cases;
  }

  // Gaussians, of which those of two ranks at a place have this correlation.
  std::vector<EncodeCase> CorrelatedCases(double correlation, int ranks, int64_t elems) {
    const auto common = FloatsOf(MakeGrad(Kind::kGaussian, elems, DType::kFloat32, &random_));
    auto cases = Cases(Kind::kGaussian, ranks, elems, DType::kFloat32, ResidualMode::kNone);
    for (EncodeCase& c : cases) {
      std::vector<float> grad = FloatsOf(c.grad);
      for (size_t i = 0; i < grad.size(); ++i) {
        grad[i] = static_cast<float>(std::sqrt(correlation) * common[i] +
                                     std::sqrt(1 - correlation) * grad[i]);
      }
      c.grad = BytesOf(grad);
    }
    return cases;
  }

  ResidualMode AnyMode(const std::string& spec) {
    const std::span<const ResidualMode> modes = ModesOf(CodecOf(spec).feedback);
    return modes[random_.Below(modes.size())];
  }

  RandomStream random_;
  ::testing::ScopedTrace trace_;
};

TEST_P(SparseCarriers, SameBytesAsTheReferenceOnAllRanks) {
  for (int trial = 0; trial < (kSanitized ? 200 : 1000); ++trial) {
    const std::string spec = kSpecs[random_.Below(std::size(kSpecs))];
    const int n = 1 + static_cast<int>(random_.Below(12));
    const auto elems = static_cast<int64_t>(random_.Below(trial % 4 == 0 ? 6000 : 600));
    const Kind kind = kKinds[random_.Below(std::size(kKinds))];
    SCOPED_TRACE(::testing::Message()
                 << spec << ", " << n << " ranks, " << Name(kind) << ", " << elems);
    const auto cases = Cases(kind, n, elems, kGradTypes[random_.Below(3)], AnyMode(spec));
    const auto method = MethodOf(spec);
    const auto actual = RunCarriers(*method, cases, InOrder(n), 0.375f);
    ForceTargetForTest("scalar");
    const auto expected = RunCarriers(*method, cases, InOrder(n), 0.375f);
    ForceTargetForTest(Name(GetParam()));
    ASSERT_NO_FATAL_FAILURE(CheckSame(expected, actual));
    for (const CarrierRank& rank : actual) {
      ASSERT_TRUE(rank.absorbed.ok()) << rank.absorbed.ToString();
      ASSERT_EQ(rank.out, actual[0].out);
      ASSERT_EQ(rank.replicated, actual[0].replicated);
    }
  }
}

// sum p = out + sum e'.
TEST_P(SparseCarriers, KeepBackWhatTheyDoNotSend) {
  for (const std::string spec : kSpecs) {
    if (!HasFeedback(spec)) continue;
    for (int n : {1, 2, 5, 9}) {
      SCOPED_TRACE(spec + ", " + std::to_string(n) + " ranks");
      auto cases = Cases(Kind::kGaussian, n, 5000, DType::kFloat32, ResidualMode::kSeparate);
      const auto results = RunCarriers(*MethodOf(spec), cases, InOrder(n));
      const std::vector<float> out = FloatsOf(results[0].out);
      const std::vector<std::vector<float>> inputs = InputsOf(cases);
      for (size_t i = 0; i < out.size(); ++i) {
        double in = 0, held = out[i], size = std::fabs(out[i]);
        bool kept = true;
        for (int r = 0; r < n; ++r) {
          in += inputs[r][i];
          held += results[r].e_out[i];
          size += std::fabs(inputs[r][i]);
          kept &= results[r].e_out[i] == inputs[r][i];
        }
        // What was sent may also add up to nothing.
        ASSERT_TRUE(kept || out[i] != 0 || std::fabs(in) <= 1e-6 * size) << "element " << i;
        ASSERT_NEAR(held, in, 1e-6 * size) << "element " << i;
      }
      for (EncodeCase& c : cases) c.mode = ResidualMode::kInPlace;
      ASSERT_NO_FATAL_FAILURE(CheckSame(results, RunCarriers(*MethodOf(spec), cases, InOrder(n))));
    }
  }
}

// One element that is not finite on one rank, whether it would be sent or not.
TEST_P(SparseCarriers, AreNanEverywhereWhereOneRankIsNotFinite) {
  constexpr int64_t kElems = 5000;  // pieces, of which one is not finite
  for (const std::string spec : kSpecs) {
    for (ResidualMode mode : ModesOf(CodecOf(spec).feedback)) {
      const int n = 1 + static_cast<int>(random_.Below(12));
      SCOPED_TRACE(spec + ", " + std::to_string(n) + " ranks");
      auto cases = Cases(Kind::kGaussian, n, kElems, DType::kFloat32, mode);
      const auto bad_rank = static_cast<size_t>(random_.Below(static_cast<uint64_t>(n)));
      const float bad[] = {NAN, INFINITY, -INFINITY};
      std::memcpy(cases[bad_rank].grad.data() + 4 * random_.Below(kElems), &bad[random_.Below(3)],
                  4);
      const auto finite = RunCarriers(
          *MethodOf(spec), Cases(Kind::kGaussian, n, kElems, DType::kFloat32, mode), InOrder(n));
      const auto results = RunCarriers(*MethodOf(spec), cases, InOrder(n));
      for (size_t r = 0; r < results.size(); ++r) {
        EXPECT_TRUE(results[r].absorbed.ok());
        EXPECT_EQ(results[r].stats.nonfinite, r == bad_rank ? 1u : 0u);
        for (float v : FloatsOf(results[r].out)) ASSERT_TRUE(std::isnan(v));
        EXPECT_TRUE(!KeepsBack(mode) || SameBits(results[r].e_out, cases[r].e_in));
        EXPECT_EQ(results[r].replicated.size(), finite[r].replicated.size());
        if (!results[r].replicated.empty()) {
          EXPECT_GT(TopkStateOf(results[r]).quota, 0u);
          EXPECT_LE(TopkStateOf(results[r]).quota, kElems);
        }
      }
    }
  }
}

TEST_P(SparseCarriers, DamagedSumsAreHarmless) {
  for (const std::string spec : kSpecs) {
    int refused = 0;
    for (int trial = 0; trial < 200; ++trial) {
      const int n = 1 + static_cast<int>(random_.Below(10));
      const auto elems = static_cast<int64_t>(random_.Below(900));
      const auto cases = Cases(Kind::kGaussian, n, elems, DType::kFloat32, AnyMode(spec));
      const bool one_bit = trial % 2 == 0;
      const auto results =
          RunCarriers(*MethodOf(spec), cases, InOrder(n), 1.0f, [&](int round, auto* bytes) {
            if (round > 0 || bytes->empty()) return;
            if (one_bit) (*bytes)[random_.Below(bytes->size())] ^= std::byte{1} << random_.Below(8);
            for (std::byte& b : *bytes) b = one_bit ? b : static_cast<std::byte>(random_());
          });
      refused += results[0].absorbed.code() == gwDataCorrupt;
      for (const CarrierRank& rank : results) {
        EXPECT_EQ(rank.absorbed.code(), results[0].absorbed.code());
        EXPECT_TRUE(!rank.absorbed.ok() || rank.out == results[0].out);
      }
    }
    EXPECT_GT(refused, 20) << spec;
  }
}

TEST_P(SparseCarriers, MoreRanksThanThereAreCannotBeNotFinite) {
  constexpr uint32_t kRanks = 3;
  const auto cases = Cases(Kind::kGaussian, kRanks, 500, DType::kFloat32, ResidualMode::kNone);
  for (uint32_t flagged : {0u, 1u, kRanks, kRanks + 1, ~0u}) {
    const auto results = RunCarriers(*MethodOf("topk(density=0.1)"), cases, InOrder(kRanks), 1.0f,
                                     [flagged](int round, auto* sum) {
                                       if (round == 0) std::memcpy(sum->data(), &flagged, 4);
                                     });
    EXPECT_EQ(results[0].absorbed.code(), flagged <= kRanks ? gwSuccess : gwDataCorrupt);
    EXPECT_TRUE(flagged == 0 || flagged > kRanks || std::isnan(FloatsOf(results[0].out)[0]));
  }
}

// --- randk --------------------------------------------------------------------------------------

TEST_P(SparseCarriers, RandkOfManyIsRandkOfTheMean) {
  constexpr int kRanks = 7;
  for (const char* spec : {kSpecs[0], kSpecs[1]}) {
    const auto cases = Cases(Kind::kGaussian, kRanks, 2000, DType::kFloat32, AnyMode(spec));
    const std::vector<std::vector<float>> inputs = InputsOf(cases);
    std::vector<float> mean(2000);
    for (size_t i = 0; i < mean.size(); ++i) {
      double sum = 0;
      for (const std::vector<float>& p : inputs) sum += p[i];
      mean[i] = static_cast<float>(sum / kRanks);
    }
    EncodeCase one = cases[0];
    one.grad = BytesOf(mean);
    one.mode = ResidualMode::kNone;
    const auto many =
        FloatsOf(RunCarriers(*MethodOf(spec), cases, InOrder(kRanks), 1.0f / kRanks)[0].out);
    const auto single = FloatsOf(RunCarriers(*MethodOf(spec), {one}, InOrder(1))[0].out);
    double scale = 0;
    for (float v : single) scale = std::max(scale, std::fabs(double{v}));
    for (size_t i = 0; i < single.size(); ++i) ASSERT_NEAR(many[i], single[i], 1e-5 * scale);
  }
}

// The error of one rank, |p - C(p)|^2 / |p|^2, is 1 - k/d on the average with feedback, and
// d/k - 1 without.
TEST_P(SparseCarriers, RandkLosesWhatItsDensitySays) {
  constexpr int kDraws = 1500;
  for (const auto& [spec, expected] : {std::pair<const char*, double>{"randk(density=0.1)", 0.9},
                                       {"randk(density=0.2,feedback=off)", 4.0}}) {
    auto cases = Cases(Kind::kGaussian, 1, 500, DType::kFloat32, AnyMode(spec));
    const std::vector<float> p = cases[0].Input();
    const double energy = Energy(p);
    double sum = 0, sum2 = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      cases[0].dither.step = static_cast<uint32_t>(draw);
      const auto results = RunCarriers(*MethodOf(spec), cases, InOrder(1));
      std::vector<float> error = FloatsOf(results[0].out);
      for (size_t i = 0; i < p.size(); ++i) error[i] -= p[i];
      const double lost = Energy(error) / energy;
      EXPECT_NEAR(results[0].stats.sum_err2, lost * energy, 1e-4 * energy);
      EXPECT_NEAR(results[0].stats.sum_p2, energy, 1e-5 * energy);
      sum += lost;
      sum2 += lost * lost;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, expected, 5.5 * std::sqrt((sum2 / kDraws - mean * mean) / kDraws)) << spec;
  }
}

// --- topk ---------------------------------------------------------------------------------------

// Magnitudes descending, of equal ones the lower index first.
std::vector<uint32_t> Largest(const std::vector<float>& p, int64_t count) {
  std::vector<uint32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&p](uint32_t a, uint32_t b) {
    const float x = std::fabs(p[a]), y = std::fabs(p[b]);
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

// Small integers: many are equal, and sums are exact.
TEST_P(SparseCarriers, TopkSendsTheUnionOfWhatSpeakersFindLargest) {
  for (int trial = 0; trial < (kSanitized ? 60 : 300); ++trial) {
    const int n = 1 + static_cast<int>(random_.Below(13));
    const auto elems = static_cast<int64_t>(1 + random_.Below(2000));
    const std::string density =
        std::to_string(std::max(random_.Unit() * random_.Unit(), 1.0 / elems));
    const int64_t k = std::llround(std::stod(density) * static_cast<double>(elems));
    const int64_t speakers = std::min(n, 8), least = (k + speakers - 1) / speakers;
    const auto quota = least + static_cast<int64_t>(random_.Below(k - least + 1));
    // Of as many ranks as there may have been before.
    const auto first = static_cast<uint32_t>(random_.Below(30));
    const bool has_state = quota > least || trial % 2 == 0;
    SCOPED_TRACE(::testing::Message() << n << " ranks, " << quota << " of " << elems);
    auto cases = Cases(Kind::kZeros, n, elems, DType::kFloat32, ResidualMode::kSeparate);
    std::vector<std::vector<float>> p;
    for (EncodeCase& c : cases) {
      std::vector<float> grad(static_cast<size_t>(elems));
      for (float& v : grad) v = static_cast<float>(random_.Below(101)) - 50;
      for (float& e : c.e_in) e = static_cast<float>(random_.Below(11)) - 5;
      c.grad = BytesOf(grad);
      if (has_state) {
        c.replicated =
            BytesOf(TopkState{.quota = static_cast<uint32_t>(quota), .first_speaker = first});
      }
      p.push_back(c.Input());
    }
    std::set<uint32_t> expected;
    for (int64_t j = 0; j < speakers; ++j) {
      const int64_t rank = ((has_state ? first : 0) + j) % n;
      for (uint32_t index : Largest(p[rank], quota)) expected.insert(index);
    }
    const auto results = RunCarriers(*MethodOf("topk(density=" + density + ")"), cases, InOrder(n));
    const std::vector<float> out = FloatsOf(results[0].out);
    for (uint32_t i = 0; i < out.size(); ++i) {
      float sum = 0;
      for (const auto& of_rank : p) sum += of_rank[i];
      const bool sent = expected.contains(i);
      ASSERT_EQ(out[i], sent ? sum : 0) << "element " << i;
      for (int r = 0; r < n; ++r) ASSERT_EQ(results[r].e_out[i], sent ? 0 : p[r][i]);
    }
    const auto size = static_cast<int64_t>(expected.size());
    EXPECT_EQ(static_cast<int64_t>(results[0].filled[1].size()), 4 * size);
    EXPECT_EQ(TopkStateOf(results[0]).quota,
              std::clamp((2 * quota * k + size) / (2 * size), least, k));
  }
}

// A speaker has words in its slot, and others only the flag.
bool Speaks(const CarrierRank& rank) {
  const std::vector<std::byte>& words = rank.filled[0];
  return std::any_of(words.begin() + 4, words.end(), [](std::byte b) { return b != std::byte{0}; });
}

// Whichever training steps use the tensor, and whatever is not finite in them.
TEST_P(SparseCarriers, TopkLetsAllRanksSpeakInTurn) {
  constexpr uint32_t kStride = 2;  // of step numbers
  for (int n : {9, 13, 16, 17}) {
    const int uses = (n + 7) / 8;
    std::vector<int> silent_for(static_cast<size_t>(n));
    std::vector<std::byte> state;
    for (uint32_t use = 0; use < 40; ++use) {
      auto cases = Cases(random_.Below(4) == 0 ? Kind::kNonFinite : Kind::kGaussian, n, 200,
                         DType::kFloat32, ResidualMode::kNone);
      for (EncodeCase& c : cases) {
        c.replicated = state;
        c.dither.step = use * kStride;
      }
      const auto results = RunCarriers(*MethodOf("topk(density=0.1)"), cases, InOrder(n));
      state = results[0].replicated;
      EXPECT_EQ(std::count_if(results.begin(), results.end(), Speaks), 8);
      for (size_t r = 0; r < results.size(); ++r) {
        silent_for[r] = Speaks(results[r]) ? 0 : silent_for[r] + 1;
        ASSERT_LT(silent_for[r], uses) << "rank " << r << " of " << n << ", use " << use;
      }
    }
  }
}

TEST_P(SparseCarriers, TopkOfOneRankKeepsBackNoMoreThanItsDensitySays) {
  for (Kind kind : kKinds) {
    if (kind == Kind::kNonFinite || kind == Kind::kMaximum) continue;
    const auto cases = Cases(kind, 1, 1000, DType::kFloat32, ResidualMode::kSeparate);
    const auto results = RunCarriers(*MethodOf("topk(density=0.05)"), cases, InOrder(1));
    EXPECT_LE(Energy(results[0].e_out), 0.95 * Energy(cases[0].Input())) << Name(kind);
  }
}

// However much ranks agree, about k elements are sent once the quota has followed.
TEST_P(SparseCarriers, TopkSendsAboutAsManyAsItsDensitySays) {
  constexpr int kRanks = 8;
  constexpr int64_t kElems = 5000, kSelected = 250;
  for (double agreement : {0.0, 0.5, 0.9, 1.0}) {
    if (kSanitized && agreement > 0) continue;
    std::vector<std::byte> state;
    int64_t sent = 0;
    constexpr int kSteps = 24, kSettled = 8;
    for (int step = 0; step < kSteps; ++step) {
      auto cases = CorrelatedCases(agreement * agreement, kRanks, kElems);
      for (EncodeCase& c : cases) {
        c.replicated = state;
        c.dither.step = static_cast<uint32_t>(step);
      }
      const auto results = RunCarriers(*MethodOf("topk(density=0.05)"), cases, InOrder(kRanks));
      state = results[0].replicated;
      if (step >= kSettled) sent += static_cast<int64_t>(results[0].filled[1].size()) / 4;
    }
    EXPECT_NEAR(static_cast<double>(sent) / (kSteps - kSettled), kSelected, 0.1 * kSelected)
        << "agreement " << agreement;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SparseCarriers, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gradwire
