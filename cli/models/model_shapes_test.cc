#include "cli/models/model_shapes.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

ModelShapes ModelOf(std::vector<TensorShape> tensors) { return {"m", std::move(tensors)}; }

void ExpectWrong(std::vector<TensorShape> tensors, const std::string& words) {
  const Status status = CheckShapes(ModelOf(std::move(tensors)));
  EXPECT_EQ(status.code(), gwInvalidArgument);
  EXPECT_NE(status.ToString().find(words), std::string::npos) << status.ToString();
}

TEST(ModelShapes, CountElements) {
  const ModelShapes model = ModelOf({{"a", {2, 3, 4}}, {"b", {5}}});
  EXPECT_EQ(model.elems(), 29);
  EXPECT_TRUE(CheckShapes(model).ok());
}

TEST(CheckShapes, NamesTheTensorThatIsWrong) {
  ExpectWrong({}, "no tensors");
  ExpectWrong({{"", {1}}}, "name is empty");
  ExpectWrong({{"a", {1}}, {"b", {2}}, {"a", {3}}}, "'a' is there twice");
  ExpectWrong({{"a", {}}}, "'a' has an empty shape");
  ExpectWrong({{"a", {2, 0}}}, "'a' has a length of 0");
  ExpectWrong({{"a", {-2, -3}}}, "'a' has a length of -2");
}

TEST(CheckShapes, RefusesWhatOverflows) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  ExpectWrong({{"a", {kHuge, kHuge}}}, "'a' is too large");
  ExpectWrong({{"a", {4, kHuge}}}, "'a' is too large");
  EXPECT_TRUE(CheckShapes(ModelOf({{"a", {kMaxModelElems}}})).ok());
  ExpectWrong({{"a", {kMaxModelElems}}, {"b", {1}}}, "'b' makes the model too large");
}

TEST(Scaled, CutsRowsOfMatricesAndRoundsUp) {
  const ModelShapes half =
      Scaled(ModelOf({{"a", {5, 3}}, {"b", {7}}, {"c", {1, 9}}, {"d", {4, 2, 2}}}), 0.5);
  EXPECT_EQ(half.tensors[0].lengths, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(half.tensors[1].lengths, (std::vector<int64_t>{7}));
  EXPECT_EQ(half.tensors[2].lengths, (std::vector<int64_t>{1, 9}));
  EXPECT_EQ(half.tensors[3].lengths, (std::vector<int64_t>{2, 2, 2}));
}

TEST(Scaled, ByOneIsTheSame) {
  const ModelShapes model = ModelOf({{"a", {50257, 768}}});
  EXPECT_EQ(Scaled(model, 1).tensors[0].lengths, model.tensors[0].lengths);
}

}  // namespace
}  // namespace gradwire
