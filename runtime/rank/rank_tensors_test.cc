#include "runtime/rank/rank_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "compress/registry.h"
#include "runtime/engine/tensor_list.h"
#include "runtime/spec/auto_spec.h"
#include "transports/control/message.h"

namespace gradwire {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kElems = 1 << 16;

// One rank of several, without an engine.
class RankTensorsTest : public testing::Test {
 protected:
  RankTensors Make(int world_size, const SliceSize& slice = {.elems = kElems}) {
    return RankTensors(
        {.rank = 0, .algorithms = {.world_size = world_size}, .slice = slice, .clock = &clock_});
  }
  static TensorState* Add(RankTensors* rank, const std::string& name, const std::string& spec,
                          DType dtype = DType::kFloat32) {
    auto tensor = std::make_unique<TensorState>();
    tensor->name = name;
    tensor->shape = {kElems};
    tensor->elems = kElems;
    tensor->dtype = dtype;
    tensor->SetCodec(*MakeCodec(spec));
    return *rank->table().Add(std::move(tensor));
  }
  SubmittedTensor Submitted(TensorState* tensor) {
    auto* const memory = reinterpret_cast<std::byte*>(memory_.data());
    return {.tensor = tensor, .send = memory, .recv = memory};
  }

 private:
  ManualClock clock_;
  std::vector<float> memory_ = std::vector<float>(kElems);
};

TEST_F(RankTensorsTest, MakesOneOperationASchemeOfTheStep) {
  RankTensors rank = Make(2);
  const std::vector<SubmittedTensor> tensors = {Submitted(Add(&rank, "exact", "none")),
                                                Submitted(Add(&rank, "half", "bf16")),
                                                Submitted(Add(&rank, "exact too", "none"))};
  const Operations operations =
      *rank.MakeAllReduce(tensors, ReduceOp::kSum, {.number = 7, .turn = 3});
  ASSERT_THAT(operations, SizeIs(2));
  EXPECT_EQ(FindInOpText(operations[0]->Text(), "tensors"), "exact,exact too");
  EXPECT_EQ(FindInOpText(operations[1]->Text(), "scheme"), "two_shot");
  for (const std::shared_ptr<Operation>& operation : operations) {
    EXPECT_EQ(FindInOpText(operation->Text(), "step"), "7");
    EXPECT_EQ(operation->turn, 3);
    EXPECT_TRUE(operation->in_step);
  }
  const auto scattered =
      *rank.MakeReduceScatter(tensors[1], ReduceOp::kSum, {.turn = 4, .open = false});
  EXPECT_EQ(scattered->name, "reduce-scatter of a tensor");
  EXPECT_FALSE(scattered->in_step);
  const AlgorithmRow* const ring = *FindAlgorithm(Collective::kAllReduce, "ring");
  const auto raw = rank.MakeRaw({.count = 5}, *ring, 4);
  EXPECT_EQ(raw->name, "all-reduce");
  EXPECT_EQ(raw->turn, 4);
}

// So many bytes on the wire are one slice, whatever the elements are.
TEST_F(RankTensorsTest, WhatIsSmallOnTheWireIsCutIntoLongerSlices) {
  RankTensors rank = Make(2, {.elems = kElems, .wire_bytes = kElems});
  const auto slices = [&](const std::string& spec, DType dtype) {
    const std::string name = spec + std::string(Name(dtype));
    const SubmittedTensor tensor = Submitted(Add(&rank, name, spec, dtype));
    const Operations operations = *rank.MakeAllReduce({&tensor, 1}, ReduceOp::kSum, {});
    EXPECT_TRUE(operations[0]->Prepare().ok());
    return operations[0]->slices();
  };
  EXPECT_EQ(slices("none", DType::kFloat32), 4);
  EXPECT_EQ(slices("none", DType::kBfloat16), 2);
  EXPECT_EQ(slices("none", DType::kFloat16), 2);
  EXPECT_EQ(slices("bf16", DType::kFloat32), 2);
  EXPECT_EQ(slices("bf16", DType::kBfloat16), 2);
}

TEST_F(RankTensorsTest, AutomaticTensorsGetThePlannedCodecOnce) {
  RankTensors rank = Make(2);
  TensorState* const automatic = Add(&rank, "w", "qsgd(bits=4)");
  const std::vector<SubmittedTensor> tensors = {Submitted(Add(&rank, "fixed", "qsgd(bits=4)")),
                                                Submitted(automatic)};
  EXPECT_THAT(rank.PlannedChanges(tensors, {}), IsEmpty());
  rank.Automate(automatic, std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")), 0);
  EXPECT_EQ(automatic->codec.spec, "none");
  // The plan before there is one.
  const std::vector<RankTensors::CodecChange> changes = rank.PlannedChanges(tensors, {});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].tensor, automatic);
  rank.TakeChanges(changes);
  EXPECT_EQ(automatic->codec.spec, automatic->automatic->ladder[kBf16Rung].codec.spec);
  EXPECT_THAT(rank.PlannedChanges(tensors, {}), IsEmpty());
}

TEST_F(RankTensorsTest, OneRankAloneHasNothingToBeginAnew) {
  const auto residual_after = [&](int world_size) {
    RankTensors rank = Make(world_size);
    const TensorState* const tensor = Add(&rank, "w", "qsgd(bits=4,feedback=on)");
    rank.EndTurn({.outcome = StepOutcome::kAbort, .begins_anew = true});
    return tensor->residual.allocated();
  };
  EXPECT_TRUE(residual_after(2));
  EXPECT_FALSE(residual_after(1));
}

TEST_F(RankTensorsTest, AnEndOfATurnBringsTheTableAsOneText) {
  RankTensors rank = Make(2);
  Add(&rank, "a", "none");
  const TurnEnd first = rank.MakeTurnEnd({.number = 7, .turn = 3});
  EXPECT_EQ(first.turn, 3);
  EXPECT_EQ(first.step, 7u);
  EXPECT_FALSE(first.no_wait);
  EXPECT_EQ(*first.table, EncodeTensorList(rank.table().List(), kMaxControlBodyBytes));
  EXPECT_EQ(rank.MakeTurnEnd({}).table, first.table) << "made again";
  Add(&rank, "b", "none");
  const TurnEnd changed = rank.MakeTurnEnd({});
  EXPECT_NE(changed.table_digest, first.table_digest);
  EXPECT_NE(*changed.table, *first.table);
}

TEST_F(RankTensorsTest, TheLongestTableLeavesRoomForAnObservation) {
  RankTensors rank = Make(2);
  for (int i = 0; i < 100; ++i) Add(&rank, std::to_string(i) + std::string(1000, 'x'), "none");
  EXPECT_LE(std::ssize(*rank.MakeTurnEnd({}).table), kMaxControlBodyBytes / 2);
}

}  // namespace
}  // namespace gradwire
