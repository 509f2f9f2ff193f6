#include "runtime/operations/operations.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compress/registry.h"

namespace gradwire {
namespace {

// Tensors and all else that an operation is made of.
struct Call {
  std::vector<std::unique_ptr<TensorState>> tensors;
  uint32_t dither_step = 5;
  TensorOperation::Options options = {
      .scheme = Scheme::kTwoShot,
      .context = {.rank = 0, .world_size = 4},
      .slice_elems = 1024,
      .algorithm = *FindAlgorithm(Collective::kAllReduce, "two_shot", /*encoded=*/true),
      .step = "7"};

  void Add(const std::string& name, int64_t elems, const std::string& spec) {
    auto tensor = std::make_unique<TensorState>();
    tensor->name = name;
    tensor->elems = elems;
    tensor->shape = {elems};
    tensor->SetCodec(*MakeCodec(spec));
    tensors.push_back(std::move(tensor));
  }
  std::unique_ptr<TensorOperation> Make() const {
    std::vector<SubmittedTensor> submitted;
    for (const auto& tensor : tensors)
      submitted.push_back({.tensor = tensor.get(), .dither_step = dither_step});
    return std::make_unique<TensorOperation>(std::move(submitted), options);
  }
};

// Under bf16 or another codec of the same scheme.
Call TwoTensors(const std::string& spec = "bf16") {
  Call call;
  call.Add("layer.weight", 5000, spec);
  call.Add("layer.bias", 1000, spec);
  return call;
}

// randk, whose ranks draw the same elements.
Call ADrawingTensor() {
  Call call;
  call.options.scheme = Scheme::kLinear;
  call.options.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
  call.Add("layer.weight", 5000, "randk(0.01)");
  return call;
}

// powersgd, to which 100 x 50 is another matrix than 50 x 100.
Call AMatrix() {
  Call call;
  call.options.scheme = Scheme::kLinear;
  call.options.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
  call.Add("layer.weight", 5000, "powersgd(rank=4)");
  call.tensors[0]->shape = {100, 50};
  return call;
}

// Ranks whose frames have one signature sum; those whose texts differ must not.
TEST(TensorOperation, SignaturesDifferWhereTextsDo) {
  struct Change {
    std::string field;  // of the text
    std::function<void(Call*)> make;
    std::function<Call()> original = [] { return TwoTensors(); };
  };
  const Change changes[] = {
      {"tensors", [](Call* call) { call->tensors[1]->name = "layer.scale"; }},
      {"tensors", [](Call* call) { call->tensors.pop_back(); }},
      {"tensors", [](Call* call) { std::swap(call->tensors[0], call->tensors[1]); }},
      {"count", [](Call* call) { call->tensors[1]->elems = 1001; }},
      {"datatype", [](Call* call) { call->tensors[0]->dtype = DType::kFloat16; }},
      {"op", [](Call* call) { call->options.op = ReduceOp::kAvg; }},
      {"spec", [](Call* call) { call->tensors[0]->SetCodec(*MakeCodec("fp16")); }},
      {"loss scale", [](Call* call) { call->options.loss_scale = 2; }},
      {"step", [](Call* call) { call->options.step = "none"; }},
      {"scheme", [](Call* call) { call->options.scheme = Scheme::kReduceScatter; }},
      {"algorithm",
       [](Call* call) {
         call->options.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
       }},
      {"draw", [](Call* call) { call->dither_step = 6; }, ADrawingTensor},
      {"shape",
       [](Call* call) {
         call->tensors[0]->shape = {50, 100};
       },
       AMatrix},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.field);
    const Call original = change.original(), again = change.original();
    const auto before = original.Make(), same = again.Make();
    EXPECT_EQ(before->Signature(), same->Signature());
    EXPECT_EQ(before->Text(), same->Text());
    Call changed = change.original();
    change.make(&changed);
    const auto after = changed.Make();
    EXPECT_NE(before->Signature(), after->Signature());
    EXPECT_NE(FindInOpText(before->Text(), change.field),
              FindInOpText(after->Text(), change.field));
  }
}

// No codec that rounds by dithers alone: what ranks draw for themselves may differ.
TEST(TensorOperation, DithersOfTheirOwnAreNoDifference) {
  Call call = TwoTensors("qsgd(bits=4,feedback=off)");
  const auto before = call.Make();
  ++call.dither_step;
  const auto after = call.Make();
  EXPECT_EQ(before->Signature(), after->Signature());
  EXPECT_EQ(before->Text(), after->Text());
}

TEST(MakeTensorOperation, IsOfItsStepOrOfNone) {
  const Call made = TwoTensors();
  TensorCall call = {.scheme = Scheme::kTwoShot,
                     .context = {.world_size = 4},
                     .slice_elems = 1024,
                     .algorithm = made.options.algorithm,
                     .step = 7,
                     .turn = 3};
  const std::vector<SubmittedTensor> tensors = {{.tensor = made.tensors[0].get()},
                                                {.tensor = made.tensors[1].get()}};
  const auto inside = MakeTensorOperation(tensors, call);
  EXPECT_EQ(inside->tensor, "layer.weight");
  EXPECT_EQ(inside->turn, 3);
  EXPECT_TRUE(inside->in_step);
  EXPECT_EQ(inside->draws_end, 0u);
  EXPECT_EQ(FindInOpText(inside->Text(), "step"), "7");
  call.step.reset();
  const auto outside = MakeTensorOperation(tensors, call);
  EXPECT_FALSE(outside->in_step);
  EXPECT_EQ(outside->draws_end, 1u);
  EXPECT_EQ(FindInOpText(outside->Text(), "step"), "none");
}

TEST(TensorOperation, TellsOfTensorsWithTheCodecOfItsSubmission) {
  Call call = TwoTensors();
  const auto operation = call.Make();
  const OpText text = operation->Text();
  call.tensors[0]->SetCodec(*MakeCodec("fp16"));
  EXPECT_EQ(operation->Text(), text);
  call.tensors.clear();
  EXPECT_EQ(operation->Text(), text);
  EXPECT_EQ(FindInOpText(text, "tensors"), "layer.weight,layer.bias");
  EXPECT_EQ(FindInOpText(text, "count"), "5000,1000");
}

}  // namespace
}  // namespace gradwire
