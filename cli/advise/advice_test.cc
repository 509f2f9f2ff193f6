#include "cli/advise/advice.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace gradwire {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kBigElems = 1 << 20;
constexpr ProbeReport kGood = {.codec_us_per_elem = 0.001, .relative_error = 1e-6};

// A matrix, whose gradient appears last, and a bias too small for any codec.
ModelShapes Model() { return {"small", {{"matrix", {1024, 1024}}, {"bias", {64}}}}; }

JobFacts Job() {
  return JobOf(Model(), std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")),
               {.world_size = kRanks}, 1 << 16);
}

// Every codec alike; `none` is not tried.
Measurements Measured(double none_ms, double bf16_ms, std::optional<ProbeReport> codec) {
  Measurements measured = {.none_ms = none_ms, .bf16_ms = bf16_ms};
  measured.codecs.resize(Job().candidates.size(), codec);
  measured.codecs[0].reset();
  return measured;
}

Advice AdviceFor(double compute_ms, const Measurements& measured) {
  return MakeAdvice(Job(), Model(), compute_ms, measured);
}

TEST(Advice, IsNotToCompressWhatHides) {
  const Advice advice = AdviceFor(100, Measured(1, 0.5, kGood));
  EXPECT_FALSE(advice.compress);
  EXPECT_EQ(Summary(advice).find("do not compress: communication hides behind compute"), 0u)
      << Summary(advice);
  EXPECT_EQ(advice.advised.wire_bytes, advice.plans[kNoneRung].wire_bytes);
  for (const TensorAdvice& tensor : advice.tensors) EXPECT_EQ(tensor.saved, 0) << tensor.name;
}

TEST(Advice, IsToCompressWhatIsWaitedFor) {
  const Advice advice = AdviceFor(10, Measured(200, 100, kGood));
  EXPECT_TRUE(advice.compress);
  // The matrix in an eighth of the bytes, and 1 ms of codec.
  EXPECT_NEAR(advice.advised.step_ms, 10 + 200 / 8, 3);
  EXPECT_EQ(Summary(advice).find("compress: a step takes about "), 0u) << Summary(advice);
  EXPECT_NE(Summary(advice).find("instead of 210 ms"), std::string::npos) << Summary(advice);
  EXPECT_TRUE(advice.tensors[0].choice.starts_with("qsgd(bits=4")) << advice.tensors[0].choice;
  EXPECT_NEAR(advice.tensors[0].saved, 7.0 / 8, 0.01);
  // It is nearly all there is to send: without it the step is that of none.
  EXPECT_NEAR(advice.tensors[0].without_ms, advice.plans[kNoneRung].step_ms, 0.01);
  EXPECT_NEAR(advice.tensors[0].gain_ms, advice.tensors[0].without_ms - advice.advised.step_ms,
              1e-9);
  EXPECT_EQ(advice.tensors[1].gain_ms, 0);
  EXPECT_DOUBLE_EQ(advice.tensors[1].without_ms, advice.advised.step_ms);
  EXPECT_EQ(advice.tensors[1].choice, "none");
  EXPECT_EQ(advice.tensors[1].saved, 0);
}

TEST(Advice, HasARowForEveryCodec) {
  const Advice advice = AdviceFor(0, Measured(200, 100, kGood));
  ASSERT_EQ(advice.plans.size(), 5u);
  EXPECT_EQ(advice.plans[kNoneRung].name, "none");
  EXPECT_NEAR(advice.plans[kNoneRung].step_ms, 200, 1e-9);
  EXPECT_EQ(advice.plans[kNoneRung].wire_bytes, 1.5 * 4 * (kBigElems + 64));
  for (size_t p = 1; p < advice.plans.size(); ++p) {
    const PlanAdvice& plan = advice.plans[p];
    EXPECT_LT(plan.wire_bytes, advice.plans[p - 1].wire_bytes) << plan.name;
    EXPECT_NEAR(plan.codec_ms, 1e-6 * kBigElems, 1e-9) << plan.name;
    EXPECT_GE(plan.step_ms, advice.advised.step_ms) << plan.name;
    EXPECT_TRUE(plan.distance.has_value()) << plan.name;
  }
}

TEST(Advice, UsesNoCodecBeyondItsBound) {
  const Advice advice = AdviceFor(10, Measured(200, 100, ProbeReport{0.001, 0.9}));
  EXPECT_FALSE(advice.compress);
  EXPECT_EQ(Summary(advice).find("do not compress: no codec within its bound"), 0u)
      << Summary(advice);
  EXPECT_GT(*advice.plans.back().distance, *advice.plans.back().bound);
}

TEST(Advice, UsesNoCodecThatCouldNotBeTried) {
  const Advice advice = AdviceFor(10, Measured(200, 100, std::nullopt));
  EXPECT_FALSE(advice.compress);
  EXPECT_FALSE(advice.plans.back().distance.has_value());
}

TEST(Advice, IsNotToCompressByACodecSlowerThanTheLink) {
  const Advice advice = AdviceFor(10, Measured(200, 100, ProbeReport{0.5, 1e-6}));
  EXPECT_FALSE(advice.compress);
  EXPECT_GT(advice.plans.back().step_ms, 500);
}

}  // namespace
}  // namespace gradwire
