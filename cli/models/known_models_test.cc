#include "cli/models/known_models.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

int64_t ElemsOf(std::string_view name) {
  const StatusOr<ModelShapes> model = FindModel(name);
  EXPECT_TRUE(model.ok()) << name;
  return model.ok() ? model->elems() : 0;
}

TEST(KnownModels, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(ElemsOf("resnet50"), 25'557'032);
  EXPECT_EQ(ElemsOf("gpt2"), 124'439'808);
  // Published for the model with its pre-training heads; the encoder alone has 335,141,888.
  EXPECT_EQ(ElemsOf("bert-large"), 336'226'108);
  EXPECT_EQ(ElemsOf("fashion-mlp"), 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
}

TEST(KnownModels, HaveTheTensorsOfTheirArchitecture) {
  EXPECT_EQ(FindModel("resnet50")->tensors.size(), 161u);
  EXPECT_EQ(FindModel("gpt2")->tensors.size(), 148u);
  EXPECT_EQ(FindModel("fashion-mlp")->tensors.size(), 6u);
  const std::vector<TensorShape> resnet = FindModel("resnet50")->tensors;
  EXPECT_EQ(resnet.front().name, "conv1.weight");
  EXPECT_EQ(resnet.front().lengths, (std::vector<int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(resnet.back().name, "fc.bias");
  // Only the first block of each layer has a convolution in its shortcut.
  EXPECT_EQ(
      std::count_if(resnet.begin(), resnet.end(),
                    [](const TensorShape& t) { return t.name.ends_with("downsample.0.weight"); }),
      4);
}

TEST(KnownModels, AreWhatAShapesFileMayHold) {
  for (const KnownModel& model : KnownModels()) {
    const Status checked = CheckShapes({std::string(model.name), model.tensors()});
    EXPECT_TRUE(checked.ok()) << model.name << ": " << checked.ToString();
    EXPECT_FALSE(model.doc.empty());
  }
}

TEST(FindModel, SuggestsTheNearestName) {
  const StatusOr<ModelShapes> model = FindModel("resnet-50");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), gwInvalidArgument);
  EXPECT_NE(model.status().ToString().find("Did you mean 'resnet50'?"), std::string::npos);
  EXPECT_EQ(FindModel("llama").status().detail().hint.find("There are resnet50, "), 0u);
}

}  // namespace
}  // namespace gradwire
