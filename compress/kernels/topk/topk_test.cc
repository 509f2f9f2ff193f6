#include "compress/kernels/topk/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk_kernels.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Indices = std::vector<uint32_t>;
using Floats = std::vector<float>;

// The specification: all indices, the largest element first.
Indices SortedByMagnitude(const Floats& p) {
  Indices order(p.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto bits = [&](uint32_t i) { return std::min(ref::MagnitudeBits(p[i]), kInfBits); };
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return bits(a) > bits(b); });
  return order;
}

Indices FirstAscending(const Indices& order, int64_t k) {
  Indices first(order.begin(), order.begin() + k);
  std::sort(first.begin(), first.end());
  return first;
}

bool AllFinite(const Floats& p) {
  return std::all_of(p.begin(), p.end(), [](float v) { return std::isfinite(v); });
}

// An array of floats whose end no kernel may cross.
class GuardedFloats {
 public:
  explicit GuardedFloats(const Floats& values) : buffer_(static_cast<int64_t>(4 * values.size())) {
    if (!values.empty()) std::memcpy(buffer_.data(), values.data(), 4 * values.size());
  }
  float* data() const { return reinterpret_cast<float*>(buffer_.data()); }
  const std::byte* bytes() const { return buffer_.data(); }
  bool intact() const { return buffer_.intact(); }

 private:
  GuardedBuffer buffer_;
};

struct Selected {
  Indices indices;
  bool finite = false;
};

Selected Select(const InputJob& input, int64_t k) {
  const GuardedBuffer workspace(TopkWorkspaceBytes(input.elems, k));
  Selected selected{Indices(static_cast<size_t>(k))};
  selected.finite = SelectTopk(input, {workspace.data(), workspace.size()}, selected.indices);
  EXPECT_TRUE(workspace.intact());
  return selected;
}

std::vector<int64_t> Counts(int64_t elems) {
  std::vector<int64_t> counts = {0, 1, 2, elems / 1000, elems / 100, elems / 2, elems - 1, elems};
  std::erase_if(counts, [&](int64_t k) { return k < 0 || k > elems; });
  return counts;
}

void CheckAllCounts(const Floats& p) {
  const GuardedFloats grad(p);
  const Indices order = SortedByMagnitude(p);
  const auto elems = static_cast<int64_t>(p.size());
  for (int64_t k : Counts(elems)) {
    const Selected selected = Select({.grad = grad.bytes(), .elems = elems}, k);
    ASSERT_EQ(selected.indices, FirstAscending(order, k)) << elems << " elements, k " << k;
    ASSERT_EQ(selected.finite, AllFinite(p)) << elems << " elements, k " << k;
  }
}

// Value of element i of n.
struct Kind {
  std::string name;
  std::function<float(RandomStream*, int64_t i, int64_t n)> value;
};

float Gaussian(RandomStream* random) {
  return static_cast<float>(std::sqrt(-2 * std::log(1 - random->Unit())) *
                            std::cos(2 * M_PI * random->Unit()));
}

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      {"gaussian", [](RandomStream* r, int64_t, int64_t) { return Gaussian(r); }},
      {"heavy tail",
       [](RandomStream* r, int64_t, int64_t) { return std::exp(8 * Gaussian(r)) * Gaussian(r); }},
      {"zeros of both signs",
       [](RandomStream* r, int64_t, int64_t) { return r->Below(2) == 0 ? 0.0f : -0.0f; }},
      {"all equal", [](RandomStream*, int64_t, int64_t) { return -3.0f; }},
      {"ascending", [](RandomStream*, int64_t i, int64_t) { return static_cast<float>(i); }},
      {"descending", [](RandomStream*, int64_t i, int64_t n) { return static_cast<float>(n - i); }},
      {"few distinct",
       [](RandomStream* r, int64_t, int64_t) { return static_cast<float>(r->Below(5)) - 2; }},
      {"one in a hundred",
       [](RandomStream* r, int64_t, int64_t) { return r->Below(100) == 0 ? Gaussian(r) : 0.0f; }},
      {"subnormal", [](RandomStream* r, int64_t,
                       int64_t) { return std::ldexp(static_cast<float>(r->Below(1000)), -149); }},
      {"largest",
       [](RandomStream* r, int64_t, int64_t) {
         return r->Below(2) == 0 ? FLT_MAX : -std::nextafter(FLT_MAX, 0.0f);
       }},
      {"not finite",
       [](RandomStream* r, int64_t, int64_t) {
         const float values[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX};
         const uint64_t which = r->Below(40);
         return which < 5 ? values[which] : Gaussian(r);
       }},
  };
  return kinds;
}

Floats Make(const Kind& kind, int64_t elems, RandomStream* random) {
  Floats p(static_cast<size_t>(elems));
  for (int64_t i = 0; i < elems; ++i) p[i] = kind.value(random, i, elems);
  return p;
}

// Around SIMD widths, runs, the least sample and the room for candidates.
constexpr int64_t kSizes[] = {0,   1,   2,   15,  16,  17,   63,   64,    65,
                              255, 256, 257, 511, 513, 1000, 4099, 16639, 40001};

class TopkTest : public testing::TestWithParam<SimdTarget> {
 protected:
  TopkTest() : random_(TestSeed(), 0) { ForceTargetForTest(Name(GetParam())); }
  ~TopkTest() override { ForceTargetForTest(""); }

  RandomStream random_;
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

TEST_P(TopkTest, SelectsWhatSortingSelects) {
  for (const Kind& kind : Kinds()) {
    for (int64_t elems : kSizes) {
      SCOPED_TRACE(kind.name);
      CheckAllCounts(Make(kind, elems, &random_));
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

// The sample sees only large elements: its floor is too high, and a second pass must find the rest.
TEST_P(TopkTest, SelectsWhereTheSampleSeesOnlyTheLargest) {
  const int64_t elems = 40001;
  Floats p = Make(Kinds()[0], elems, &random_);
  for (int64_t i = 0; i < TopkSamples(elems); ++i) p[TopkSampleAt(i, elems)] = 100;
  CheckAllCounts(p);
}

// The sample sees only small elements: its floor is too low, and candidates fill their room again
// and again.
TEST_P(TopkTest, SelectsWhereTheSampleSeesOnlyTheSmallest) {
  const int64_t elems = 200003;
  Floats p(static_cast<size_t>(elems));
  for (int64_t i = 0; i < elems; ++i) p[i] = static_cast<float>(i + 1);
  for (int64_t i = 0; i < TopkSamples(elems); ++i) p[TopkSampleAt(i, elems)] = 0;
  CheckAllCounts(p);
}

// Large enough for stores past the cache, at any alignment.
// Blocks that are as the one before, and ones that are not.
TEST_P(TopkTest, SelectsTheSameWithAnyHint) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed());
  constexpr int64_t kElems = 4096;
  TopkHint hint;
  for (int block = 0; block < 60; ++block) {
    const Kind& kind = Kinds()[random.Below(3) == 0 ? random.Below(Kinds().size()) : 0];
    const float scale = random.Below(4) == 0 ? 1e3f : 1.0f;
    Floats p(kElems);
    for (int64_t i = 0; i < kElems; ++i) p[i] = scale * kind.value(&random, i, kElems);
    const GuardedFloats grad(p);
    const auto k = static_cast<int64_t>(random.Below(4) == 0 ? 1 + random.Below(kElems) : 41);
    const GuardedBuffer workspace(TopkWorkspaceBytes(kElems, k));
    Indices selected(static_cast<size_t>(k));
    EXPECT_EQ(SelectTopk({.grad = grad.bytes(), .elems = kElems},
                         {workspace.data(), workspace.size()}, selected, &hint),
              AllFinite(p));
    ASSERT_EQ(selected, FirstAscending(SortedByMagnitude(p), k)) << kind.name << ", k " << k;
    ASSERT_TRUE(workspace.intact());
  }
}

// Blocks of equal elements, all of which reach the floor, must not narrow it for good.
TEST_P(TopkTest, AHintKeepsASlackThatCanGrow) {
  constexpr int64_t kElems = 1024, kSelected = 10;
  const GuardedFloats grad(Floats(kElems, 1.0f));
  const GuardedBuffer workspace(TopkWorkspaceBytes(kElems, kSelected));
  Indices selected(kSelected);
  TopkHint hint;
  for (int block = 0; block < 40; ++block) {
    EXPECT_TRUE(SelectTopk({.grad = grad.bytes(), .elems = kElems},
                           {workspace.data(), workspace.size()}, selected, &hint));
  }
  EXPECT_EQ(hint.slack, 1u);
}

TEST_P(TopkTest, WritesItsInputToTheResidualOfALargeTensor) {
  const int64_t elems = (int64_t{1} << 20) + 77;
  const GuardedFloats grad(Make(Kinds()[0], elems, &random_));
  const GuardedFloats e_in(Make(Kinds()[0], elems, &random_));
  Floats p(static_cast<size_t>(elems));
  for (int64_t i = 0; i < elems; ++i) p[i] = grad.data()[i] * 0.25f + e_in.data()[i];
  const Indices expected = FirstAscending(SortedByMagnitude(p), elems / 100);
  for (int64_t offset : {0, 1}) {
    Floats room(static_cast<size_t>(elems + 32));
    const auto to_line = static_cast<int64_t>(-(reinterpret_cast<uintptr_t>(room.data()) / 4) % 16);
    float* p_out = room.data() + to_line + offset;
    const InputJob input = {.grad = grad.bytes(),
                            .in_scale = 0.25f,
                            .e_in = e_in.data(),
                            .e_out = p_out,
                            .elems = elems};
    EXPECT_EQ(Select(input, elems / 100).indices, expected);
    EXPECT_TRUE(std::equal(p.begin(), p.end(), p_out));
    EXPECT_EQ(p_out[elems], 0);
  }
}

TEST_P(TopkTest, WritesItsInputToTheResidualForAnyCount) {
  const int64_t elems = 40001;
  const GuardedFloats grad(Make(Kinds()[1], elems, &random_));
  for (int64_t k : Counts(elems)) {
    const GuardedFloats p_out(Floats(static_cast<size_t>(elems), -1.0f));
    Select({.grad = grad.bytes(), .e_out = p_out.data(), .elems = elems}, k);
    EXPECT_EQ(std::memcmp(p_out.data(), grad.data(), 4 * elems), 0) << "k " << k;
    EXPECT_TRUE(p_out.intact());
  }
}

TEST_P(TopkTest, WidensSixteenBitGradients) {
  const int64_t elems = 4099;
  std::vector<uint16_t> half(static_cast<size_t>(elems));
  for (uint16_t& bits : half) bits = static_cast<uint16_t>(random_());
  const auto* bytes = reinterpret_cast<const std::byte*>(half.data());
  for (DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    Floats p;
    for (uint16_t bits : half) {
      p.push_back(dtype == DType::kFloat16 ? FloatFromFp16(bits) : FloatFromBf16(bits));
    }
    const Selected selected = Select({.grad = bytes, .dtype = dtype, .elems = elems}, 321);
    EXPECT_EQ(selected.indices, FirstAscending(SortedByMagnitude(p), 321));
    EXPECT_EQ(selected.finite, AllFinite(p));
  }
}

// One element that is not finite is said, also where nothing is selected.
TEST_P(TopkTest, SaysWhereAnElementIsNotFinite) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    for (int64_t at : {0, 255, 256, 999}) {
      Floats p = Make(Kinds()[0], 1000, &random_);
      p[at] = bad;
      const GuardedFloats grad(p);
      EXPECT_FALSE(Select({.grad = grad.bytes(), .elems = 1000}, 0).finite);
      const Selected one = Select({.grad = grad.bytes(), .elems = 1000}, 1);
      EXPECT_FALSE(one.finite);
      EXPECT_EQ(one.indices, Indices{static_cast<uint32_t>(at)});
    }
  }
}

// By the way, whatever the sample and the passes it took.
TEST_P(TopkTest, CountsItsInput) {
  for (const Kind& kind : Kinds()) {
    const int64_t elems = 5000;
    const Floats p = Make(kind, elems, &random_);
    const GuardedFloats grad(p);
    double energy = 0;
    float largest = 0;
    uint32_t nonfinite = 0;
    for (float v : p) {
      nonfinite += std::isfinite(v) ? 0 : 1;
      energy += static_cast<double>(v) * v;
      largest = std::max(largest, std::isfinite(v) ? std::fabs(v) : 0.0f);
    }
    for (int64_t k : Counts(elems)) {
      EncodeStats stats;
      Select({.grad = grad.bytes(), .elems = elems, .stats = &stats}, k);
      EXPECT_EQ(stats.nonfinite, nonfinite) << kind.name;
      EXPECT_EQ(stats.absmax, largest) << kind.name;
      if (nonfinite == 0) {
        EXPECT_NEAR(stats.sum_p2, energy, 1e-5 * energy) << kind.name << ", k " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TopkTest,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(TopkSampleTest, ReadsOnceFromEachPartOfTheInput) {
  for (int64_t elems : {int64_t{16}, int64_t{4099}, int64_t{16} << 20, kTopkMaxElems}) {
    const int64_t samples = TopkSamples(elems);
    ASSERT_GT(samples, 0);
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t at = TopkSampleAt(i, elems);
      ASSERT_GE(at, i * elems / samples);
      ASSERT_LT(at, ((i + 1) * elems + samples - 1) / samples);
    }
  }
  EXPECT_EQ(TopkSamples(15), 0);
}

}  // namespace
}  // namespace gradwire
