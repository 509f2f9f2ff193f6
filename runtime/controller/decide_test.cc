#include "runtime/controller/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/controller/knowledge.h"
#include "runtime/controller/plan.h"

namespace gradwire {
namespace {

struct WorldCandidate {
  const char* spec;
  bool feedback;
  double bytes_per_elem, codec_us_per_elem, relative_error;
};
constexpr WorldCandidate kCandidates[] = {{"none", false, 4, 0, 0},
                                          {"bf16", false, 2, 0.0003, 2e-6},
                                          {"qsgd(bits=8)", false, 1.02, 0.001, 1e-4},
                                          {"qsgd(bits=4)", true, 0.52, 0.001, 0.03}};
constexpr int kLadder = static_cast<int>(std::size(kCandidates));

// A training run as it "is": slices of each tensor go through a processor that encodes and a wire
// that sends, each one after the other. Not the model's formulas.
class World {
 public:
  double us_per_byte = 0.01;
  double latency_us = 20;
  double compute_us = 20000;
  double noise = 0.0;
  double lie = 1.0;         // of the codecs' probes, over the truth
  double error_factor = 1;  // of the errors
  double error_bound = 0.1;

  explicit World(const std::vector<int64_t>& elems, uint64_t seed = 1) : random_(seed) {
    job_ = {.world_size = 4, .slice_elems = kSlice};
    for (size_t t = 0; t < elems.size(); ++t) {
      JobTensor tensor = {.id = t, .name = "t" + std::to_string(t), .elems = elems[t]};
      for (int c = 0; c < kLadder; ++c) {
        const double bytes = 1.5 * kCandidates[c].bytes_per_elem * static_cast<double>(elems[t]);
        tensor.ladder.push_back({c, bytes});
      }
      job_.tensors.push_back(tensor);
    }
    plan_a_ = plan_b_ = Plan(elems.size(), 0);
  }

  const JobFacts& Job() {
    job_.candidates.clear();
    for (const WorldCandidate& c : kCandidates)
      job_.candidates.push_back({c.spec, c.feedback, c.feedback ? 1.0 : error_bound});
    return job_;
  }

  double StepUs(const Plan& plan) const { return Walk(plan).step_us; }
  double NoneUs() const { return StepUs(Plan(job_.tensors.size(), 0)); }
  double BestUniformUs() const {
    double best = NoneUs();
    for (uint8_t rung = 1; rung < kLadder; ++rung)
      best = std::min(best, StepUs(Plan(job_.tensors.size(), rung)));
    return best;
  }

  // One step under the plan in effect, and what Decide makes of it. Returns its time.
  double Step() {
    const uint16_t turn = turn_++;
    for (; !orders_.empty() && orders_.front().from_turn == turn; orders_.erase(orders_.begin())) {
      from_turn_ = turn, plan_a_ = orders_.front().a, plan_b_ = orders_.front().b;
    }
    const Plan& plan = Running(turn);
    Walked walked = Walk(plan);
    std::lognormal_distribution<double> factor(0, noise);
    walked.step_us *= noise > 0 ? factor(random_) : 1;
    walked.step_us *= std::exchange(stall_, 1);
    DecideInput input = {.turn = static_cast<uint16_t>(turn + 1),
                         .step = {.step = turn,
                                  .turn = turn,
                                  .step_us = walked.step_us,
                                  .compute_us = compute_us,
                                  .busy_us = walked.busy_us}};
    if (turn % 5 == 0) Observe(plan, &input.step);
    input.probes.push_back(Probe(1 + turn % (kLadder - 1)));
    if (std::optional<Decision> decision = Decide(Job(), input, &memory_)) {
      decisions.push_back(*decision);
      orders_.push_back(*decision);
    }
    return walked.step_us;
  }
  void Steps(int n) {
    for (int i = 0; i < n; ++i) Step();
  }
  void StallNext(double factor) { stall_ = factor; }
  // What was learnt in another world of the same tensors.
  void ResumeFrom(World& other) {
    memory_ = *DecodeKnowledge(Job(), EncodeKnowledge(other.Job(), other.memory_));
  }
  const Plan& running() const { return memory_.running; }
  bool comparing() const { return memory_.trial.has_value(); }

  std::vector<Decision> decisions;

 private:
  static constexpr int64_t kSlice = 1 << 16;
  struct Walked {
    double step_us = 0, busy_us = 0;
  };

  const Plan& Running(uint16_t turn) const {
    return RunsPlanB({.from_turn = from_turn_}, turn) ? plan_b_ : plan_a_;
  }

  double ReadyUs(size_t t) const {
    const auto n = static_cast<double>(job_.tensors.size());
    return compute_us / 3 * (1 + 1.9 * static_cast<double>(t + 1) / n);
  }

  Walked Walk(const Plan& plan) const {
    double processor_us = 0, wire_us = 0, done_us = 0, busy_us = 0;
    for (size_t t = 0; t < plan.size(); ++t) {
      const WorldCandidate& codec = kCandidates[plan[t]];
      const double begin_us = std::max(ReadyUs(t), done_us);
      processor_us = std::max(processor_us, ReadyUs(t));
      wire_us = std::max(wire_us, ReadyUs(t)) + latency_us;
      for (int64_t left = job_.tensors[t].elems; left > 0; left -= kSlice) {
        const auto elems = static_cast<double>(std::min(left, kSlice));
        processor_us += elems * codec.codec_us_per_elem / 2;
        wire_us =
            std::max(wire_us, processor_us) + elems * codec.bytes_per_elem * 1.5 * us_per_byte;
        done_us = std::max(done_us, wire_us) + elems * codec.codec_us_per_elem / 2;
      }
      busy_us += done_us - begin_us;
    }
    return {std::max(done_us, ReadyUs(plan.size() - 1)) + compute_us - ReadyUs(plan.size() - 1),
            busy_us};
  }

  void Observe(const Plan& plan, StepInput* step) const {
    for (size_t t = 0; t < plan.size(); ++t) {
      const WorldCandidate& codec = kCandidates[plan[t]];
      const auto elems = static_cast<float>(job_.tensors[t].elems);
      step->tensors.push_back(
          {.tensor = t,
           .ready_us = static_cast<float>(ReadyUs(t)),
           .codec_us = elems * static_cast<float>(codec.codec_us_per_elem),
           .energy = elems,
           .error = elems * static_cast<float>(codec.relative_error * error_factor)});
    }
  }

  ProbeResult Probe(int candidate) const {
    return {.candidate = candidate,
            .codec_us_per_elem = lie * kCandidates[candidate].codec_us_per_elem,
            .relative_error = error_factor * kCandidates[candidate].relative_error};
  }

  std::mt19937_64 random_;
  JobFacts job_;
  Memory memory_;
  uint16_t turn_ = 0, from_turn_ = 0;
  double stall_ = 1;
  Plan plan_a_, plan_b_;
  std::vector<Decision> orders_;
};

std::vector<int64_t> Layers() { return {400000, 300000, 200000, 100000, 50000, 20000}; }

constexpr int kWarmUp = 60;

TEST(Decide, BeginsWithNoneThenBf16) {
  World world(Layers());
  world.Steps(30);
  ASSERT_GE(world.decisions.size(), 2u);
  EXPECT_EQ(world.decisions[0].a, Plan(6, 0)) << "whatever ran before";
  EXPECT_EQ(world.decisions[1].a, Plan(6, 1));
  EXPECT_GE(world.decisions[1].from_turn, 12);
}

TEST(Decide, CompressesOnASlowLink) {
  World world(Layers());
  world.us_per_byte = 0.04;  // 200 Mbit/s
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  EXPECT_LT(world.StepUs(world.running()), 0.5 * world.NoneUs());
}

TEST(Decide, LeavesAFastLinkAlone) {
  World world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100000;
  world.Steps(200);
  EXPECT_EQ(world.running(), Plan(6, 0));
}

TEST(Decide, ErrorsAboveTheBoundKeepCodecsOut) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.error_bound = 0.005;  // bf16 gives about 0.002, qsgd of 8 bits 0.013
  world.error_factor = 20;    // 4 bits: more than the lag allows
  world.Steps(300);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
}

TEST(Decide, GoesDownWhereARunningCodecIsBeyondItsBound) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(200);
  const Plan before = world.running();
  ASSERT_GT(*std::max_element(before.begin(), before.end()), 1);
  world.error_factor = 1000;
  world.Steps(60);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
}

TEST(Decide, FollowsANetworkThatGetsSlow) {
  World world(Layers());
  world.us_per_byte = 0.001;
  world.Steps(200);
  world.us_per_byte = 0.05;
  world.Steps(60);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// On a link so fast that bf16 only costs its encoding, the warm-up learns nothing of bytes.
TEST(Decide, FollowsANetworkThatGetsSlowAfterAWarmUpThatTaughtNothing) {
  World world(Layers());
  world.us_per_byte = 1e-6;
  world.Steps(200);
  ASSERT_EQ(world.running(), Plan(6, 0));
  world.us_per_byte = 0.04;
  world.Steps(150);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// Its encoding alone takes longer than the plain sum: every trial would only cost time.
TEST(Decide, LeavesABaselineAloneThatWasMeasuredSlower) {
  World world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.Steps(1000);
  EXPECT_EQ(world.running(), Plan(6, 0));
  for (const Decision& decision : world.decisions) EXPECT_EQ(decision.a, decision.b);
}

TEST(Decide, TurnsMayWrap) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(300);
  const Plan before = world.running();
  world.Steps(70000);
  EXPECT_EQ(world.StepUs(world.running()), world.StepUs(before));
}

TEST(Decide, StalledStepsOfATrialDoNotCount) {
  World world(Layers());
  world.us_per_byte = 0.01;
  world.noise = 0.02;
  int stalls = 0;
  for (int i = 0; i < 1000; ++i) {
    if (world.comparing() && i % 7 == 0 && stalls++ < 20) world.StallNext(500);
    world.Step();
  }
  EXPECT_GT(stalls, 0);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

TEST(Decide, FollowsANetworkThatGetsFast) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(200);
  world.us_per_byte = 0.0004;
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

TEST(Decide, OneStalledStepChangesNothing) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(170);
  while (world.comparing()) world.Step();
  const Plan before = world.running();
  const size_t decisions = world.decisions.size();
  for (int i = 0; i < 2; ++i) {
    world.StallNext(20);
    world.Step();
  }
  world.Steps(8);
  EXPECT_EQ(world.running(), before);
  EXPECT_EQ(world.decisions.size(), decisions);
}

TEST(Decide, SensorsThatLieCostLittle) {
  for (const double lie : {0.5, 2.0, 10.0}) {
    World world(Layers());
    world.us_per_byte = 0.003;
    world.lie = lie;
    world.Steps(kWarmUp);
    double sum_us = 0;
    for (int i = 0; i < 500; ++i) sum_us += world.Step();
    EXPECT_LE(sum_us, 500 * world.NoneUs() / 0.98) << lie;
  }
}

TEST(Decide, IsNeverMuchSlowerThanNone) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  for (int round = 0; round < 100; ++round) {
    World world(Layers(), seed + round);
    world.us_per_byte = draw(1e-5, 0.1);
    world.compute_us = draw(1e3, 1e6);
    world.latency_us = draw(5, 5000);
    world.noise = 0.03;
    world.Steps(kWarmUp);
    double sum_us = 0;
    for (int i = 0; i < 500; ++i) sum_us += world.Step();
    EXPECT_LE(sum_us, 500 * world.NoneUs() / 0.975)
        << "round " << round << ": " << world.us_per_byte << " us per byte, compute "
        << world.compute_us << " us, latency " << world.latency_us << " us";
  }
}

TEST(Decide, AResumedRunHasNoWarmUp) {
  World before(Layers());
  before.us_per_byte = 0.04;
  before.Steps(300);
  World after(Layers());
  after.us_per_byte = 0.04;
  after.ResumeFrom(before);
  after.Steps(100);
  for (const Decision& decision : after.decisions)
    EXPECT_EQ(decision.why.find("warm-up"), std::string::npos) << decision.why;
  EXPECT_EQ(after.decisions.at(0).a, before.running());
  EXPECT_LE(after.StepUs(after.running()), 1.05 * after.BestUniformUs());
}

TEST(Decide, ARunResumedElsewhereFollowsItsNetwork) {
  for (const auto& [was, is] : {std::pair(0.04, 0.0004), std::pair(0.0004, 0.04)}) {
    World before(Layers());
    before.us_per_byte = was;
    before.Steps(300);
    World after(Layers());
    after.us_per_byte = is;
    after.ResumeFrom(before);
    after.Steps(200);
    EXPECT_LE(after.StepUs(after.running()), 1.1 * after.BestUniformUs()) << was << " " << is;
  }
}

TEST(Decide, TheSameInputsGiveTheSameDecisions) {
  std::vector<std::vector<Decision>> runs;
  for (int run = 0; run < 2; ++run) {
    World world(Layers(), 7);
    world.noise = 0.05;
    world.Steps(400);
    runs.push_back(world.decisions);
  }
  ASSERT_FALSE(runs[0].empty());
  ASSERT_EQ(runs[0].size(), runs[1].size());
  for (size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_EQ(runs[0][i].from_turn, runs[1][i].from_turn);
    EXPECT_EQ(runs[0][i].a, runs[1][i].a);
    EXPECT_EQ(runs[0][i].b, runs[1][i].b);
    EXPECT_EQ(runs[0][i].why, runs[1][i].why);
  }
}

}  // namespace
}  // namespace gradwire
