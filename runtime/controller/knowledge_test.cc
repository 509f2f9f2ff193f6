#include "runtime/controller/knowledge.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace gradwire {
namespace {

JobFacts Job() {
  return {.world_size = 2,
          .slice_elems = 64,
          .candidates = {{"none", false, 0.1}, {"bf16", false, 0.1}, {"qsgd", true, 1}},
          .tensors = {{.id = 3, .name = "a", .elems = 100, .ladder = {{0, 400}, {1, 200}, {2, 50}}},
                      {.id = 9, .name = "b", .elems = 10, .ladder = {{0, 40}, {1, 20}, {}}}}};
}

std::optional<Decision> DecideStep(uint16_t turn, Memory* memory) {
  const DecideInput input = {.turn = static_cast<uint16_t>(turn + 1),
                             .step = {.step = turn,
                                      .turn = turn,
                                      .step_us = 1000.0 + turn % 7,
                                      .compute_us = 300,
                                      .busy_us = 600,
                                      .tensors = {{3, 100, 5, 8, 0.1f}, {9, 200, 1, 2, 0.1f}}},
                             .probes = {{1, 65536, 0.001, 1e-6}, {2, 65536, 0.001, 0.01}}};
  return Decide(Job(), input, memory);
}

Memory After(uint16_t steps) {
  Memory memory;
  for (uint16_t turn = 0; turn < steps; ++turn) (void)DecideStep(turn, &memory);
  return memory;
}

TEST(Knowledge, IsNoneBeforeTheWarmUpIsOver) {
  EXPECT_EQ(EncodeKnowledge(Job(), Memory()), "");
  EXPECT_EQ(EncodeKnowledge(Job(), After(5)), "");
  EXPECT_NE(EncodeKnowledge(Job(), After(100)), "");
}

TEST(Knowledge, ComesBackAsItWas) {
  Memory memory = After(300);
  memory.bans.Add({.plan = {2, 1}, .until_window = memory.windows + 5, .times = 3});
  memory.forbidden[0][2] = memory.windows + 9;
  memory.model.us_per_byte = 0.25;
  memory.alike = {Job().world_size + 1.5, 0.5};
  memory.candidates[2] = {.relative_error = 0.5, .at_step = memory.steps - 20};
  const std::string saved = EncodeKnowledge(Job(), memory);
  const StatusOr<Memory> resumed = DecodeKnowledge(Job(), saved);
  ASSERT_TRUE(resumed.ok()) << resumed.status().ToString();
  EXPECT_EQ(resumed->running, memory.running);
  EXPECT_EQ(resumed->model.us_per_byte, 0.25);
  EXPECT_EQ(resumed->alike, memory.alike);
  ASSERT_FALSE(resumed->bans.entries().empty());
  const PlanBans::Entry& ban = resumed->bans.entries().back();
  EXPECT_EQ(ban.plan, (Plan{2, 1}));
  EXPECT_EQ(ban.until_window - resumed->windows, 5);
  EXPECT_EQ(ban.times, 3);
  EXPECT_EQ(resumed->forbidden[0][2] - resumed->windows, 9);
  EXPECT_EQ(resumed->candidates[2].relative_error, 0.5);
  EXPECT_EQ(resumed->steps - resumed->candidates[2].at_step, 20);
  EXPECT_EQ(EncodeKnowledge(Job(), *resumed), saved);
}

TEST(Knowledge, LeadsToItsPlanAtOnce) {
  const Memory memory = After(300);
  Memory resumed = *DecodeKnowledge(Job(), EncodeKnowledge(Job(), memory));
  const std::optional<Decision> first = DecideStep(40, &resumed);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->a, memory.running);
  EXPECT_EQ(first->b, memory.running);
  EXPECT_EQ(first->why, "resumed from a saved state");
}

// It may be the slower one.
TEST(Knowledge, HoldsNoPlanThatWasNotComparedYet) {
  Memory memory = After(300);
  memory.to_verify = Plan{1, 1};
  memory.running = {2, 1};
  EXPECT_EQ(DecodeKnowledge(Job(), EncodeKnowledge(Job(), memory))->running, (Plan{1, 1}));
}

// On two steps, which may have been slow for other reasons.
TEST(Knowledge, IsNoneWhereTheWarmUpLeftNoneOut) {
  Memory memory = After(300);
  memory.to_verify = Plan{1, 1};
  memory.left_out_none = true;
  EXPECT_EQ(EncodeKnowledge(Job(), memory), "");
}

// How long its steps took was not measured: nothing says that the training goes on elsewhere.
TEST(Knowledge, StaysWhereThePlanHasNoTimeToCompareWith) {
  Memory memory = After(300);
  memory.to_verify = Plan{1, 1};
  memory.bans = {};
  memory.bans.Add({.plan = {2, 0}, .until_window = memory.windows + 50, .times = 3});
  ASSERT_GT(memory.tried.at(0).medians.step_us, 0);
  Memory resumed = *DecodeKnowledge(Job(), EncodeKnowledge(Job(), memory));
  for (uint16_t turn = 40; resumed.windows == 0; ++turn) (void)DecideStep(turn, &resumed);
  EXPECT_GT(resumed.tried.at(0).medians.step_us, 0);
  ASSERT_EQ(resumed.bans.entries().size(), 1u);
  EXPECT_EQ(resumed.bans.entries()[0].plan, (Plan{2, 0}));
}

TEST(Knowledge, OfAnotherJobOrFormatIsRefused) {
  const std::string saved = EncodeKnowledge(Job(), After(300));
  JobFacts other = Job();
  other.tensors[1].elems = 11;
  EXPECT_EQ(DecodeKnowledge(other, saved).status().code(), gwMismatch);
  other = Job();
  other.candidates[2].bound = 0.5;
  EXPECT_EQ(DecodeKnowledge(other, saved).status().code(), gwMismatch);
  std::string later = saved;
  ++later[0];
  EXPECT_EQ(DecodeKnowledge(Job(), later).status().code(), gwMismatch);
}

// A rung would stay closed for ever, or a price for ever believed.
TEST(Knowledge, WhatNoControllerWouldHoldIsRefused) {
  const Memory real = After(300);
  const auto refused = [&](const auto& change) {
    Memory memory = real;
    change(&memory);
    return DecodeKnowledge(Job(), EncodeKnowledge(Job(), memory)).status().code() == gwDataCorrupt;
  };
  EXPECT_FALSE(refused([](Memory*) {}));
  EXPECT_TRUE(refused([](Memory* m) { m->forbidden[0][2] = m->windows + kForbidWindows + 1; }));
  EXPECT_TRUE(refused([](Memory* m) { m->model.slowdown = 2 * kMaxSlowdown; }));
  EXPECT_TRUE(refused([](Memory* m) { m->candidates[1].probed_elems = kTellingPieceElems + 1; }));
  EXPECT_TRUE(refused([](Memory* m) {
    m->bans.Add(
        {.plan = {2, 1}, .until_window = m->windows + PlanBans::kMaxWindows + 1, .times = 9});
  }));
}

TEST(Knowledge, DamagedBytesAreRefused) {
  const std::string saved = EncodeKnowledge(Job(), After(300));
  for (size_t size = 0; size < saved.size(); ++size)
    EXPECT_EQ(DecodeKnowledge(Job(), saved.substr(0, size)).status().code(), gwDataCorrupt) << size;
  EXPECT_EQ(DecodeKnowledge(Job(), saved + '\0').status().code(), gwDataCorrupt);
  constexpr size_t kPlanAt = 20;
  std::string bad = saved;
  bad[kPlanAt] = 3;  // no such rung
  EXPECT_EQ(DecodeKnowledge(Job(), bad).status().code(), gwDataCorrupt);
  bad = saved;
  bad[kPlanAt + 1] = 2;  // one that this tensor cannot use
  EXPECT_EQ(DecodeKnowledge(Job(), bad).status().code(), gwDataCorrupt);
  bad = saved;
  bad.replace(kPlanAt + 2, 8, 8, '\xff');  // not a number
  EXPECT_EQ(DecodeKnowledge(Job(), bad).status().code(), gwDataCorrupt);
}

}  // namespace
}  // namespace gradwire
