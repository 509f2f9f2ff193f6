#include "runtime/operations/tensor_operation.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compress/registry.h"

namespace gradwire {
namespace {

// Tensors and all else that an operation is made of.
struct Submission {
  std::vector<std::unique_ptr<TensorState>> tensors;
  uint32_t dither_step = 5;
  TensorCall call = {
      .scheme = Scheme::kTwoShot,
      .context = {.rank = 0, .world_size = 4},
      .slice_elems = 1024,
      .algorithm = *FindAlgorithm(Collective::kAllReduce, "two_shot", /*encoded=*/true),
      .step = 7};

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
    return std::make_unique<TensorOperation>(std::move(submitted), call);
  }
};

// Under bf16 or another codec of the same scheme.
Submission TwoTensors(const std::string& spec = "bf16") {
  Submission made;
  made.Add("layer.weight", 5000, spec);
  made.Add("layer.bias", 1000, spec);
  return made;
}

// randk, whose ranks draw the same elements.
Submission ADrawingTensor() {
  Submission made;
  made.call.scheme = Scheme::kLinear;
  made.call.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
  made.Add("layer.weight", 5000, "randk(0.01)");
  return made;
}

// powersgd, to which 100 x 50 is another matrix than 50 x 100.
Submission AMatrix() {
  Submission made;
  made.call.scheme = Scheme::kLinear;
  made.call.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
  made.Add("layer.weight", 5000, "powersgd(rank=4)");
  made.tensors[0]->shape = {100, 50};
  return made;
}

// Ranks whose frames have one signature sum; those whose texts differ must not.
TEST(TensorOperation, SignaturesDifferWhereTextsDo) {
  struct Change {
    std::string field;  // of the text
    std::function<void(Submission*)> make;
    std::function<Submission()> original = [] { return TwoTensors(); };
  };
  const Change changes[] = {
      {"tensors", [](Submission* made) { made->tensors[1]->name = "layer.scale"; }},
      {"tensors", [](Submission* made) { made->tensors.pop_back(); }},
      {"tensors", [](Submission* made) { std::swap(made->tensors[0], made->tensors[1]); }},
      {"count", [](Submission* made) { made->tensors[1]->elems = 1001; }},
      {"datatype", [](Submission* made) { made->tensors[0]->dtype = DType::kFloat16; }},
      {"op", [](Submission* made) { made->call.op = ReduceOp::kAvg; }},
      {"spec", [](Submission* made) { made->tensors[0]->SetCodec(*MakeCodec("fp16")); }},
      {"loss scale", [](Submission* made) { made->call.loss_scale = 2; }},
      {"step", [](Submission* made) { made->call.step.reset(); }},
      {"scheme", [](Submission* made) { made->call.scheme = Scheme::kReduceScatter; }},
      {"algorithm",
       [](Submission* made) {
         made->call.algorithm = *FindAlgorithm(Collective::kAllReduce, "ring");
       }},
      {"draw", [](Submission* made) { made->dither_step = 6; }, ADrawingTensor},
      {"shape",
       [](Submission* made) {
         made->tensors[0]->shape = {50, 100};
       },
       AMatrix},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.field);
    const Submission original = change.original(), again = change.original();
    const auto before = original.Make(), same = again.Make();
    EXPECT_EQ(before->Signature(), same->Signature());
    EXPECT_EQ(before->Text(), same->Text());
    Submission changed = change.original();
    change.make(&changed);
    const auto after = changed.Make();
    EXPECT_NE(before->Signature(), after->Signature());
    EXPECT_NE(FindInOpText(before->Text(), change.field),
              FindInOpText(after->Text(), change.field));
  }
}

// No codec that rounds by dithers alone: what ranks draw for themselves may differ.
TEST(TensorOperation, DithersOfTheirOwnAreNoDifference) {
  Submission made = TwoTensors("qsgd(bits=4,feedback=off)");
  const auto before = made.Make();
  ++made.dither_step;
  const auto after = made.Make();
  EXPECT_EQ(before->Signature(), after->Signature());
  EXPECT_EQ(before->Text(), after->Text());
}

TEST(MakeTensorOperation, IsOfItsStepOrOfNone) {
  const Submission made = TwoTensors();
  TensorCall call = made.call;
  call.turn = 3;
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
  Submission made = TwoTensors();
  const auto operation = made.Make();
  const OpText text = operation->Text();
  made.tensors[0]->SetCodec(*MakeCodec("fp16"));
  EXPECT_EQ(operation->Text(), text);
  made.tensors.clear();
  EXPECT_EQ(operation->Text(), text);
  EXPECT_EQ(FindInOpText(text, "tensors"), "layer.weight,layer.bias");
  EXPECT_EQ(FindInOpText(text, "count"), "5000,1000");
}

}  // namespace
}  // namespace gradwire
