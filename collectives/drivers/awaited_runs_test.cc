#include "collectives/drivers/awaited_runs.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr int kPeer = 3;

TEST(AwaitedRuns, WhatMayStillBeginIsAwaited) {
  AwaitedRuns awaited(0);
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 7}).ok()) << "nothing is known yet";
  awaited.Admit(4, 0, 3);
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 4, .slice = 2}).ok()) << "a later slice";
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 5}).ok()) << "a later operation";
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 4}).ok()) << "no run of it has begun";
}

TEST(AwaitedRuns, WhatIsCompleteIsNot) {
  AwaitedRuns awaited(0);
  awaited.Admit(4, 0, 3);
  awaited.Begin({.op_seq = 4});
  EXPECT_EQ(awaited.Check(kPeer, {.op_seq = 4}).code(), gwMismatch) << "a run that has begun";
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 4, .run = 1}).ok()) << "the slice's next run";
  awaited.Admit(4, 1, 3);
  awaited.Retire(4, 0);
  EXPECT_EQ(awaited.Check(kPeer, {.op_seq = 4, .run = 1}).code(), gwMismatch) << "a retired slice";
  awaited.SetCompletedBelow(4);
  EXPECT_EQ(awaited.Check(kPeer, {.op_seq = 3, .slice = 9}).code(), gwMismatch);
}

TEST(AwaitedRuns, WhatNobodySubmitsHereIsNot) {
  AwaitedRuns awaited(0);
  awaited.Admit(4, 0, 3);
  EXPECT_EQ(awaited.Check(kPeer, {.op_seq = 4, .slice = 3}).code(), gwMismatch) << "of 3 slices";
  awaited.SetSubmitted(6);
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 5}).ok());
  const Status beyond = awaited.Check(kPeer, {.op_seq = 6});
  EXPECT_EQ(beyond.code(), gwMismatch);
  EXPECT_EQ(beyond.detail().expected, "6 (rank 0)");
  EXPECT_EQ(beyond.detail().actual, "at least 7 (rank 3)");
}

TEST(AwaitedRuns, ATurnBeginsAnew) {
  AwaitedRuns awaited(0);
  awaited.Admit(4, 0, 1);
  awaited.SetCompletedBelow(5);
  awaited.SetSubmitted(6);
  awaited.BeginTurn();
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 0}).ok());
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 6}).ok());
}

TEST(AwaitedRuns, NumbersOfOperationsWrap) {
  AwaitedRuns awaited(0);
  awaited.Admit(0xffffffffu, 0, 1);
  awaited.SetCompletedBelow(0xffffffffu);
  EXPECT_TRUE(awaited.Check(kPeer, {.op_seq = 0}).ok());
  EXPECT_EQ(awaited.Check(kPeer, {.op_seq = 0xfffffffeu}).code(), gwMismatch);
}

}  // namespace
}  // namespace gradwire
