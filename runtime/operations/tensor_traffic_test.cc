#include "runtime/operations/tensor_traffic.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
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
  const auto chosen = [&](size_t tensors) {
    const std::span<const SubmittedTensor> some = {group.data(), tensors};
    return (*AlgorithmFor(some, scheme, algorithms, MethodState::kSettled))->name;
  };
  EXPECT_EQ(chosen(1), "recursive_doubling");
  EXPECT_EQ(chosen(2), "direct");
}

// Its first steps send the whole matrix, the others factors of 4 KiB.
TEST(AlgorithmFor, AStepBeforeTheStartOfAMethodIsChosenForByWhatItSends) {
  TensorState tensor;
  tensor.SetCodec(*MakeCodec("powersgd(rank=1,start_step=1)"));
  tensor.shape = {1024, 1024};
  tensor.elems = 1 << 20;
  const int64_t state_bytes = ReplicatedBytes(tensor, kRanks);
  ASSERT_TRUE(tensor.replicated.Allocate(state_bytes, 2).ok());
  const std::vector<SubmittedTensor> group = {{.tensor = &tensor}};
  const AlgorithmRule algorithms = {.world_size = kRanks};
  const auto chosen = [&](MethodState state) {
    return (*AlgorithmFor(group, SchemeOf(tensor), algorithms, state))->name;
  };
  EXPECT_EQ(chosen(MethodState::kSettled), "recursive_doubling");
  EXPECT_EQ(chosen(MethodState::kLive), "direct");
  const uint32_t started = 1;
  std::memcpy(tensor.replicated.next().data, &started, sizeof started);
  tensor.replicated.Commit();
  EXPECT_EQ(chosen(MethodState::kLive), "recursive_doubling");
}

}  // namespace
}  // namespace gradwire
