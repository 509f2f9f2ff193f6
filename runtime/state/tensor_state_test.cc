#include "runtime/state/tensor_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "runtime/state/state_values.h"

namespace gradwire {
namespace {

TensorState* AddTensor(TensorTable* table, std::vector<int64_t> shape, const std::string& spec) {
  auto made = std::make_unique<TensorState>();
  made->name = "w";
  made->elems = 1;
  for (const int64_t length : shape) made->elems *= length;
  made->shape = std::move(shape);
  made->SetCodec(*MakeCodec(spec));
  return *table->Add(std::move(made));
}

using testing::AllOf;
using testing::HasSubstr;

TEST(FloatSlots, StagesInTheOtherSlotAndFlipsOnCommit) {
  FloatSlots r;
  EXPECT_FALSE(r.allocated());
  EXPECT_TRUE(r.live().empty());
  ASSERT_TRUE(r.Allocate(5, /*transaction=*/true).ok());
  EXPECT_EQ(Values(r.live()), std::vector<float>(5, 0.0f));
  Fill(r.next(), 3);
  EXPECT_EQ(Values(r.live()), std::vector<float>(5, 0.0f)) << "not before the commit";
  r.Commit();
  EXPECT_EQ(Values(r.live()), std::vector<float>(5, 3.0f));
  Fill(r.next(), 4);  // aborted: never committed
  EXPECT_EQ(Values(r.live()), std::vector<float>(5, 3.0f));
  const std::vector<float> out(5, 1.0f);
  EXPECT_FALSE(r.KeepUnsent(FloatView(out.data(), 5), /*staged=*/true));
  r.Commit();
  EXPECT_EQ(Values(r.live()), std::vector<float>(5, 0.0f));
  r.Release();
  EXPECT_FALSE(r.allocated());
}

TEST(FloatSlots, KeepsWhatAnInfiniteOrNoNumberHasTakenTheRoomOf) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> out = {1, kInf, -kInf, 2, NAN};
  for (const bool staged : {false, true}) {
    FloatSlots r;
    ASSERT_TRUE(r.Allocate(5, /*transaction=*/true).ok());
    Fill(r.LiveInPlace(), 3);
    EXPECT_TRUE(r.KeepUnsent(FloatView(out.data(), 5), staged));
    if (staged) {
      EXPECT_EQ(Values(r.live()), std::vector<float>(5, 3.0f)) << "not before the commit";
      r.Commit();
    }
    EXPECT_EQ(Values(r.live()), (std::vector<float>{0, 3, 3, 0, 3}));
  }
}

TEST(FloatSlots, WithoutTransactionsThereIsOneSlot) {
  FloatSlots r;
  ASSERT_TRUE(r.Allocate(3, /*transaction=*/false).ok());
  EXPECT_EQ(r.next().data, r.live().data);
  Fill(r.next(), 2);
  r.Commit();
  EXPECT_EQ(Values(r.live()), std::vector<float>(3, 2.0f));
}

// Also without transactions, where residuals have one slot.
TEST(TensorTable, ReplicatedStateFlipsWithTheVote) {
  TensorTable table;
  TensorState* tensor = *table.Add(std::make_unique<TensorState>());
  ASSERT_TRUE(tensor->replicated.Allocate(1, kReplicatedSlots).ok());
  const auto stage = [&](int value) {
    tensor->replicated.next().data[0] = static_cast<std::byte>(value);
    tensor->replicated_staged = true;
  };
  const auto live = [&] { return static_cast<int>(tensor->replicated.live().data[0]); };
  EXPECT_EQ(live(), 0);
  stage(1);
  table.EndStep(1, /*commit=*/false);
  EXPECT_EQ(live(), 0);
  table.EndStep(2, /*commit=*/true);
  EXPECT_EQ(live(), 0) << "nothing was staged in this step";
  stage(2);
  table.EndStep(3, /*commit=*/true);
  EXPECT_EQ(live(), 2);
}

// With what an operation in a step leaves, with transactions (`staged`) and without.
TEST(TensorTable, AResidualThatWasSentOnGoesWithTheCommit) {
  for (const bool staged : {false, true}) {
    for (const bool commit : {false, true}) {
      for (const bool forgotten : {false, true}) {
        TensorTable table;
        TensorState* tensor = *table.Add(std::make_unique<TensorState>());
        ASSERT_TRUE(tensor->residual.Allocate(4, /*transaction=*/staged).ok());
        tensor->staged = staged;
        tensor->travelled = true;
        if (forgotten) tensor->ForgetStaged();
        table.EndStep(1, commit);
        EXPECT_EQ(tensor->residual.allocated(), !commit || forgotten)
            << "staged " << staged << ", commit " << commit << ", forgotten " << forgotten;
        EXPECT_FALSE(tensor->travelled);
        table.EndStep(2, /*commit=*/true);
        EXPECT_EQ(tensor->residual.allocated(), !commit || forgotten) << "of a step before";
      }
    }
  }
}

TEST(TensorTable, AnotherCodecForgetsReplicatedState) {
  TensorState tensor;
  tensor.elems = 4096;
  tensor.shape = {64, 64};
  tensor.SetCodec(*MakeCodec("acp"));
  ASSERT_TRUE(tensor.replicated.Allocate(ReplicatedBytes(tensor, 2), kReplicatedSlots).ok());
  tensor.SetCodec(*MakeCodec("acp"));
  EXPECT_TRUE(tensor.replicated.allocated());
  tensor.SetCodec(*MakeCodec("powersgd"));
  EXPECT_FALSE(tensor.replicated.allocated());
}

// An abort may leave one rank on a rung that another has not come to: both must find the same on
// the rung before.
TEST(TensorTable, ARungFindsWhatItKeptBeforeAnother) {
  const Codec first = *MakeCodec("topk(0.1)"), second = *MakeCodec("topk(0.03)");
  TensorTable table;
  TensorState* tensor = AddTensor(&table, {4096}, "none");
  const auto bytes_of = [](const StateSlots& slots) {
    return std::string(reinterpret_cast<const char*>(slots.live().data), slots.live().size);
  };
  tensor->TakeRung(first, 2);
  const int64_t bytes = ReplicatedBytes(*tensor, 2);
  ASSERT_TRUE(tensor->replicated.Allocate(bytes, kReplicatedSlots).ok());
  std::fill_n(tensor->replicated.LiveInPlace().data, bytes, std::byte{7});
  const std::string kept = bytes_of(tensor->replicated);

  tensor->TakeRung(second, 2);
  EXPECT_FALSE(tensor->replicated.allocated()) << "another codec's";
  ASSERT_TRUE(tensor->replicated.Allocate(bytes, kReplicatedSlots).ok());
  EXPECT_EQ(tensor->replicated_bytes(), 2 * kReplicatedSlots * bytes);
  table.EndStep(1, /*commit=*/false);
  tensor->TakeRung(first, 2);
  EXPECT_EQ(bytes_of(tensor->replicated), kept);
  tensor->TakeRung(second, 2);
  tensor->SetCodec(first);
  EXPECT_EQ(bytes_of(tensor->replicated), kept) << "of the spec that it has now";
  EXPECT_EQ(tensor->replicated_bytes(), kReplicatedSlots * bytes) << "no more than that";
  ASSERT_TRUE(table.BeginAnew(0, true).ok());
  EXPECT_EQ(tensor->replicated_bytes(), 0);
  tensor->TakeRung(second, 2);
  EXPECT_FALSE(tensor->replicated.allocated());
}

TEST(TensorTable, LoadingForgetsWhatAllRungsKept) {
  TensorTable table;
  TensorState* tensor = AddTensor(&table, {4096}, "none");
  const std::string saved = table.Save(0, 2);
  for (const char* spec : {"topk(0.1)", "topk(0.03)"}) {
    tensor->TakeRung(*MakeCodec(spec), 2);
    ASSERT_TRUE(tensor->replicated.Allocate(ReplicatedBytes(*tensor, 2), kReplicatedSlots).ok());
  }
  ASSERT_TRUE(table.Load(TextBytes(saved), 0, 2, true).ok());
  EXPECT_EQ(tensor->replicated_bytes(), 0);
}

// A rung that keeps nothing becomes the tensor's spec: what topk has kept must not be saved as its.
TEST(TensorTable, ASpecForgetsWhatAnEarlierRungKept) {
  TensorTable table;
  const Codec none = *MakeCodec("none"), topk = *MakeCodec("topk(0.1)");
  TensorState* tensor = AddTensor(&table, {4096}, "none");
  tensor->TakeRung(topk, 2);
  ASSERT_TRUE(tensor->replicated.Allocate(ReplicatedBytes(*tensor, 2), kReplicatedSlots).ok());
  tensor->TakeRung(none, 2);
  ASSERT_TRUE(tensor->replicated.allocated()) << "a trial goes back to it";
  tensor->SetCodec(none);
  EXPECT_FALSE(tensor->replicated.allocated());
  const std::string saved = table.Save(0, 2);
  const ConstBytes bytes = TextBytes(saved);
  EXPECT_TRUE(table.Load(bytes, 0, 2, true).ok());
}

// An aborted step leaves it as it was.
TEST(TensorTable, LocalStateFlipsWithTheVote) {
  TensorTable table;
  TensorState* tensor = *table.Add(std::make_unique<TensorState>());
  ASSERT_TRUE(tensor->local.Allocate(4, /*transaction=*/true).ok());
  const auto stage = [&](float value) {
    Fill(tensor->local.next(), value);
    tensor->staged = true;
  };
  stage(1);
  table.EndStep(1, /*commit=*/false);
  EXPECT_EQ(Values(tensor->local.live()), std::vector<float>(4, 0.0f));
  stage(2);
  table.EndStep(2, /*commit=*/true);
  table.EndStep(3, /*commit=*/true);
  EXPECT_EQ(Values(tensor->local.live()), std::vector<float>(4, 2.0f)) << "nothing was staged";
}

TEST(TensorTable, ReplicatedStateIsSavedAndRefusedByAnotherCodec) {
  TensorTable table;
  TensorState* tensor = AddTensor(&table, {4096}, "topk(0.1)");
  ASSERT_TRUE(tensor->replicated.Allocate(ReplicatedBytes(*tensor, 2), kReplicatedSlots).ok());
  tensor->replicated.LiveInPlace().data[0] = std::byte{7};
  const std::string saved = table.Save(0, 2);
  const ConstBytes bytes = TextBytes(saved);
  tensor->replicated.Release();
  ASSERT_TRUE(table.Load(bytes, 0, 2, true).ok());
  EXPECT_EQ(tensor->replicated.live().data[0], std::byte{7});
  tensor->SetCodec(*MakeCodec("efsign"));
  EXPECT_EQ(table.Load(bytes, 0, 2, true).code(), gwMismatch);
  // Where a controller chooses the codec it begins anew.
  tensor->TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")), 2);
  EXPECT_TRUE(table.Load(bytes, 0, 2, true).ok());
  EXPECT_FALSE(tensor->replicated.allocated());
}

TEST(TensorTable, RefusesAsManyBytesOfAnotherSpecOrShape) {
  TensorTable table;
  TensorState* tensor = AddTensor(&table, {64, 64}, "topk(0.1)");
  ASSERT_TRUE(tensor->replicated.Allocate(ReplicatedBytes(*tensor, 2), kReplicatedSlots).ok());
  const std::string saved = table.Save(0, 2);
  const ConstBytes bytes = TextBytes(saved);
  tensor->SetCodec(*MakeCodec("topk(0.2)"));
  Status status = table.Load(bytes, 0, 2, true);
  EXPECT_EQ(status.code(), gwMismatch);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("tensor 'w'"), HasSubstr("spec: topk(density=0.2"),
                                       HasSubstr("(registered), topk(density=0.1")));
  tensor->SetCodec(*MakeCodec("topk(0.1)"));
  tensor->shape = {4096};
  status = table.Load(bytes, 0, 2, true);
  EXPECT_EQ(status.code(), gwMismatch);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("tensor 'w'"), HasSubstr("shape: [4096] float (registered)"),
                    HasSubstr("[64,64] float (saved)")));
  tensor->shape = {64, 64};
  EXPECT_TRUE(table.Load(bytes, 0, 2, true).ok());
}

TEST(TensorTable, LocalStateIsSavedAndGoesWithItsCodec) {
  TensorTable table;
  TensorState* tensor = AddTensor(&table, {3}, "signsgd(momentum=0.9)");
  ASSERT_TRUE(tensor->local.Allocate(3, true).ok());
  Fill(tensor->local.LiveInPlace(), 2.5f);
  const std::string saved = table.Save(0, 2);
  const ConstBytes bytes = TextBytes(saved);
  tensor->local.Release();
  ASSERT_TRUE(table.Load(bytes, 0, 2, true).ok());
  EXPECT_EQ(Values(tensor->local.live()), std::vector<float>(3, 2.5f));
  tensor->SetCodec(*MakeCodec("none"));
  EXPECT_FALSE(tensor->local.allocated());
  EXPECT_EQ(table.Load(bytes, 0, 2, true).code(), gwMismatch);
  EXPECT_FALSE(tensor->local.allocated());
}

TEST(TensorState, CanUseRungsWhoseCodecCanEncodeIt) {
  const auto ladder = std::make_shared<const AutoSpec>(
      *MakeAutoSpec("auto(min_numel=100,exclude=\"*.bias\",allow=\"powersgd(rank=2)\")"));
  const auto usable = [&](const char* name, std::vector<int64_t> shape, int64_t elems) {
    TensorState tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.elems = elems;
    tensor.TakeLadder(ladder, 2);
    std::vector<bool> can;
    for (int rung = 0; rung < std::ssize(ladder->ladder); ++rung)
      can.push_back(tensor.CanUse(rung));
    EXPECT_FALSE(tensor.CanUse(static_cast<int>(std::ssize(ladder->ladder)))) << "no such rung";
    return can;
  };
  const std::vector<bool> only_none = {true, false, false, false, false, false};
  EXPECT_EQ(usable("w", {64, 64}, 4096), std::vector<bool>(6, true));
  EXPECT_EQ(usable("w", {4096}, 4096), (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(usable("w", {9, 11}, 99), only_none);
  EXPECT_EQ(usable("w.bias", {64, 64}, 4096), only_none);
}

TEST(TensorState, MatricesThatFactorsDoNotMakeSmallerAreExempt) {
  const auto exempt = [](const char* spec, std::vector<int64_t> shape, DType dtype) {
    TensorState tensor;
    tensor.elems = 1;
    for (const int64_t length : shape) tensor.elems *= length;
    tensor.shape = std::move(shape);
    tensor.dtype = dtype;
    return ExemptionFrom(*MakeCodec(spec), tensor);
  };
  EXPECT_EQ(exempt("powersgd(rank=4)", {2, 768}, DType::kFloat32),
            "its factors have 6160 bytes, the matrix 6144");
  EXPECT_EQ(exempt("powersgd(rank=4,start_step=9)", {8, 8, 16}, DType::kFloat32), "");
  EXPECT_EQ(exempt("powersgd(rank=4)", {5, 768}, DType::kFloat32), "");
  // Factors are of float32 also where the gradient is half as wide.
  EXPECT_NE(exempt("powersgd(rank=4)", {5, 768}, DType::kBfloat16), "");
  EXPECT_EQ(exempt("powersgd(rank=1)", {0, 768}, DType::kFloat32), "0 elements < min_numel 1024");
  EXPECT_EQ(exempt("powersgd(min_numel=0)", {0, 768}, DType::kFloat32), "");
  // One factor in each step.
  EXPECT_EQ(exempt("acp(rank=4)", {2, 768}, DType::kFloat32), "");
  EXPECT_NE(exempt("acp(rank=4,min_numel=0)", {4, 4}, DType::kFloat32), "");
  EXPECT_EQ(exempt("topk(1)", {2, 768}, DType::kFloat32), "") << "it makes no factors";
}

// Of a bias of 10 elements packed lanes would be 44 bytes for 40, in two rounds.
TEST(TensorState, SmallTensorsOfCarriersAreExempt) {
  const auto exempt = [](const std::string& spec, int64_t elems) {
    TensorState tensor;
    tensor.elems = elems;
    tensor.shape = {elems};
    return ExemptionFrom(*MakeCodec(spec), tensor);
  };
  for (const std::string spec :
       {"qsgd(bits=4,sum=carrier", "qsgd(bits=8,sum=carrier,feedback=on", "terngrad(clip=2.5",
        "signsgd(momentum=0", "signsgd(momentum=0.9", "intsgd(bits=8", "intsgd(bits=32"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(exempt(spec + ")", 10), "10 elements < min_numel 1024");
    EXPECT_NE(exempt(spec + ")", 1023), "");
    EXPECT_EQ(exempt(spec + ")", 1024), "");
    EXPECT_EQ(exempt(spec + ",min_numel=0)", 10), "");
    EXPECT_NE(exempt(spec + ",min_numel=5000)", 4999), "");
  }
  EXPECT_EQ(exempt("qsgd(bits=4)", 10), "") << "payloads take any size";
}

TEST(MatchesAny, TakesGlobsWithCommas) {
  EXPECT_TRUE(MatchesAny("*.bias,norm?", "layer.bias"));
  EXPECT_TRUE(MatchesAny("*.bias,norm?", "norm1"));
  EXPECT_FALSE(MatchesAny("*.bias,norm?", "norm12"));
  EXPECT_FALSE(MatchesAny("", "x"));
  EXPECT_FALSE(MatchesAny(",", ""));
}

}  // namespace
}  // namespace gradwire
