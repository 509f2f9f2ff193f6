#include "runtime/operations/tensor_traffic.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kBias = 1024, kMatrix = 1 << 20;

TensorTraffic Of(const std::string& spec, int64_t elems, AlgorithmRule algorithms = {}) {
  algorithms.world_size = kRanks;
  const std::vector<int64_t> shape = {32, elems / 32};
  return TrafficOf(*MakeCodec(spec), {.shape = shape, .elems = elems}, algorithms);
}

TEST(TrafficOf, AnExactSumOfFewElementsTakesFewerMessagesThanACodec) {
  EXPECT_EQ(Of("none", kBias).messages, 2);  // recursive doubling
  EXPECT_EQ(Of("bf16", kBias).messages, 6);  // to three owners, and from three
  EXPECT_EQ(Of("none", kMatrix).messages, 6);
  EXPECT_EQ(Of("bf16", kMatrix).messages, 6);
}

TEST(TrafficOf, AnAlgorithmThatIsSetCounts) {
  const AlgorithmRow* ring = *FindAlgorithm(Collective::kAllReduce, "ring");
  EXPECT_EQ(Of("none", kBias, {.exact = ring}).messages, 6);
}

TEST(TrafficOf, MethodsOfSeveralRoundsSendMessagesInEach) {
  // The factors of 32 x 32768 are short and long.
  EXPECT_EQ(Of("powersgd(rank=1)", kMatrix).messages, 2 * 6);
  EXPECT_EQ(Of("powersgd(rank=1)", kBias).messages, 2 * 2);
}

TEST(TrafficOf, WhatIsGatheredGoesToEveryRank) {
  const TensorTraffic gathered = Of("topk(0.01)", kMatrix);
  EXPECT_GE(gathered.messages, kRanks - 1);
  EXPECT_GT(gathered.bytes, 0);
  EXPECT_LT(gathered.bytes, 0.1 * Of("none", kMatrix).bytes);
}

TEST(TrafficOf, BytesAreThoseOfBothHalvesOfAnAllReduce) {
  EXPECT_EQ(Of("none", kMatrix).bytes, 1.5 * 4 * kMatrix);
  EXPECT_EQ(Of("bf16", kMatrix).bytes, 1.5 * 2 * kMatrix);
}

TEST(AlgorithmFor, AGroupIsChosenForAsAWhole) {
  TensorState first, second;
  std::vector<SubmittedTensor> group;
  for (TensorState* tensor : {&first, &second}) {
    tensor->SetCodec(*MakeCodec("none"));
    tensor->elems = 3 * kBias;
    group.push_back({.tensor = tensor});
  }
  const AlgorithmRule algorithms = {.world_size = kRanks};
  const Scheme scheme = SchemeOf(first);
  EXPECT_EQ((*AlgorithmFor({group.data(), 1}, scheme, algorithms))->name, "recursive_doubling");
  EXPECT_EQ((*AlgorithmFor(group, scheme, algorithms))->name, "direct");
}

}  // namespace
}  // namespace gradwire
