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

std::vector<Plan> ToTry(double compute_ms, const Measurements& measured) {
  return PlansToTry(Job(), Model(), compute_ms, measured);
}

// Where it takes as long as the model says.
TriedPlan AsPredicted(const Plan& plan, double compute_ms, const Measurements& measured) {
  const Advice only = MakeAdvice(Job(), Model(), compute_ms, measured, {{plan, 1}});
  return {plan, only.advised.predicted_ms};
}

// Everything uncompressed first.
std::vector<TriedPlan> AllAsPredicted(double compute_ms, const Measurements& measured) {
  std::vector<TriedPlan> tried = {AsPredicted(AllOn(Job(), kNoneRung), compute_ms, measured)};
  for (const Plan& plan : ToTry(compute_ms, measured))
    tried.push_back(AsPredicted(plan, compute_ms, measured));
  return tried;
}

Advice AdviceFor(double compute_ms, const Measurements& measured) {
  return MakeAdvice(Job(), Model(), compute_ms, measured, AllAsPredicted(compute_ms, measured));
}

TEST(PlansToTry, AreTheFastestByTheModelAndBf16) {
  const Measurements measured = Measured(200, 100, kGood);
  const std::vector<TriedPlan> tried = AllAsPredicted(10, measured);
  ASSERT_EQ(tried.size(), 5u);
  for (size_t p = 2; p < tried.size(); ++p) EXPECT_LE(tried[p - 1].step_ms, tried[p].step_ms);
  EXPECT_EQ(tried[4].plan, AllOn(Job(), kBf16Rung));
  EXPECT_TRUE(SpecsOf(Job(), tried[1].plan)[0].starts_with("qsgd(bits=4"));
  EXPECT_EQ(SpecsOf(Job(), tried[1].plan)[1], "none");
}

TEST(PlansToTry, AreNoneBeyondBoundsOrWithoutHope) {
  EXPECT_TRUE(ToTry(10, Measured(200, 100, ProbeReport{0.001, 0.9})).empty());
  EXPECT_TRUE(ToTry(10, Measured(200, 100, ProbeReport{0.5, 1e-6})).empty());
  // A fifth slower by the model may yet be faster.
  EXPECT_FALSE(ToTry(10, Measured(200, 100, ProbeReport{0.1, 1e-6})).empty());
}

TEST(Advice, DoesNotSayThatCodecsWereTriedWhereNothingWasWaitedFor) {
  EXPECT_TRUE(Hides(103, 100));
  EXPECT_FALSE(Hides(104, 100));
  const Advice advice =
      MakeAdvice(Job(), Model(), 100, Measured(20, 10, kGood), {{AllOn(Job(), kNoneRung), 103}});
  EXPECT_EQ(advice.tried_plans, 1u);
  EXPECT_EQ(Summary(advice),
            "do not compress: communication hides behind compute and adds about 3 ms to 100 ms");
}

TEST(Advice, IsWhatTrialsSayNotTheModel) {
  const Measurements measured = Measured(200, 100, kGood);
  std::vector<TriedPlan> tried = AllAsPredicted(10, measured);
  tried[2].step_ms = 20;
  Advice advice = MakeAdvice(Job(), Model(), 10, measured, tried);
  EXPECT_TRUE(advice.compress);
  EXPECT_EQ(advice.tensors[0].choice, SpecsOf(Job(), tried[2].plan)[0]);
  EXPECT_EQ(advice.advised.step_ms(), 20);
  EXPECT_GT(advice.advised.predicted_ms, 30);
  EXPECT_EQ(Summary(advice).find("compress: a step takes about 20 ms instead of 210 ms"), 0u)
      << Summary(advice);

  for (size_t p = 1; p < tried.size(); ++p) tried[p].step_ms = 0.98 * tried[0].step_ms;
  advice = MakeAdvice(Job(), Model(), 10, measured, tried);
  EXPECT_FALSE(advice.compress);
  EXPECT_EQ(advice.tensors[0].choice, "none");
  EXPECT_EQ(advice.advised.step_ms(), tried[0].step_ms);
  EXPECT_EQ(Summary(advice).find("do not compress: no codec within its bound"), 0u)
      << Summary(advice);
}

TEST(Advice, TellsWhichPlansWereTried) {
  const Advice advice = AdviceFor(10, Measured(200, 100, kGood));
  ASSERT_EQ(advice.plans.size(), 5u);
  EXPECT_TRUE(advice.plans[kNoneRung].tried_ms.has_value());
  EXPECT_TRUE(advice.plans[kBf16Rung].tried_ms.has_value());
  EXPECT_TRUE(advice.plans.back().tried_ms.has_value());
  const Advice untried =
      MakeAdvice(Job(), Model(), 10, Measured(200, 100, kGood), {{AllOn(Job(), kNoneRung), 210}});
  EXPECT_FALSE(untried.plans.back().tried_ms.has_value());
  EXPECT_EQ(untried.plans.back().step_ms(), untried.plans.back().predicted_ms);
  EXPECT_TRUE(advice.advised.tried_ms.has_value());
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
  EXPECT_NEAR(advice.advised.step_ms(), 10 + 200 / 8, 3);
  EXPECT_EQ(Summary(advice).find("compress: a step takes about "), 0u) << Summary(advice);
  EXPECT_NE(Summary(advice).find("instead of 210 ms"), std::string::npos) << Summary(advice);
  EXPECT_TRUE(advice.tensors[0].choice.starts_with("qsgd(bits=4")) << advice.tensors[0].choice;
  EXPECT_NEAR(advice.tensors[0].saved, 7.0 / 8, 0.01);
  // It is nearly all there is to send: without it the step is that of none.
  EXPECT_NEAR(advice.tensors[0].without_ms, advice.plans[kNoneRung].step_ms(), 0.01);
  EXPECT_NEAR(advice.tensors[0].gain_ms, advice.tensors[0].without_ms - advice.advised.step_ms(),
              1e-9);
  EXPECT_EQ(advice.tensors[1].gain_ms, 0);
  EXPECT_DOUBLE_EQ(advice.tensors[1].without_ms, advice.advised.step_ms());
  EXPECT_EQ(advice.tensors[1].choice, "none");
  EXPECT_EQ(advice.tensors[1].saved, 0);
}

TEST(Advice, HasARowForEveryCodec) {
  const Advice advice = AdviceFor(0, Measured(200, 100, kGood));
  ASSERT_EQ(advice.plans.size(), 5u);
  EXPECT_EQ(advice.plans[kNoneRung].name, "none");
  EXPECT_NEAR(advice.plans[kNoneRung].step_ms(), 200, 1e-9);
  EXPECT_EQ(advice.plans[kNoneRung].wire_bytes, 1.5 * 4 * (kBigElems + 64));
  for (size_t p = 1; p < advice.plans.size(); ++p) {
    const PlanAdvice& plan = advice.plans[p];
    EXPECT_LT(plan.wire_bytes, advice.plans[p - 1].wire_bytes) << plan.name;
    EXPECT_NEAR(plan.codec_ms, 1e-6 * kBigElems, 1e-9) << plan.name;
    EXPECT_GE(plan.step_ms(), advice.advised.step_ms()) << plan.name;
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
  EXPECT_GT(advice.plans.back().step_ms(), 500);
}

}  // namespace
}  // namespace gradwire
