#include "cli/models/shapes_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace gradwire {
namespace {

void ExpectRefused(const std::string& json, const std::string& words) {
  const StatusOr<ModelShapes> model = ParseShapes(json);
  ASSERT_FALSE(model.ok()) << json;
  EXPECT_EQ(model.status().code(), gwInvalidArgument);
  const std::string text = model.status().ToString();
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NE(text.find(R"("shape": [256, 784])"), std::string::npos) << "no valid form: " << text;
}

std::string WithTensors(const std::string& tensors) {
  return R"({"name": "m", "tensors": [)" + tensors + "]}";
}

TEST(ParseShapes, KeepsTheOrder) {
  const StatusOr<ModelShapes> model = ParseShapes(WithTensors(
      R"({"name": "b", "shape": [2, 3], "note": "ignored"}, {"name": "a", "shape": [4]})"));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->name, "m");
  ASSERT_EQ(model->tensors.size(), 2u);
  EXPECT_EQ(model->tensors[0].name, "b");
  EXPECT_EQ(model->tensors[0].lengths, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(model->tensors[1].name, "a");
}

TEST(ParseShapes, RefusesWhatIsNoList) {
  ExpectRefused("", "no JSON");
  ExpectRefused("{\"name\": \"m\", ", "no JSON");
  ExpectRefused("[]", "'name'");
  ExpectRefused(R"({"tensors": []})", "'name'");
  ExpectRefused(R"({"name": "m"})", "'tensors'");
  ExpectRefused(R"({"name": "m", "tensors": 3})", "'tensors'");
  ExpectRefused(WithTensors(""), "no tensors");
  ExpectRefused(WithTensors("3"), "tensor 0 has no text 'name'");
}

TEST(ParseShapes, RefusesWrongTensors) {
  ExpectRefused(WithTensors(R"({"name": "a"})"), "'a' has no array 'shape'");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": []})"), "'a' has an empty shape");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [-3]})"), "length of -3");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [1.5]})"), "the length 1.5");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": ["2"]})"), "the length string");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [1]}, {"name": "a", "shape": [1]})"),
                "'a' is there twice");
}

// As signed 64-bit numbers these would be -1 and 0, and their product would be small.
TEST(ParseShapes, RefusesLengthsThatWrap) {
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [18446744073709551615]})"), "'a' has");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [18446744073709551616]})"), "'a' has");
  ExpectRefused(WithTensors(R"({"name": "a", "shape": [1099511627776, 16777216]})"), "too large");
}

TEST(ReadShapesFile, NamesTheFile) {
  const std::string path = testing::TempDir() + "/shapes.json";
  std::ofstream(path) << WithTensors(R"({"name": "a", "shape": [0]})");
  const std::string text = ReadShapesFile(path).status().ToString();
  EXPECT_NE(text.find("shapes.json: tensor 'a'"), std::string::npos) << text;
  for (const std::string& unreadable : {std::string("/nowhere/shapes.json"), testing::TempDir()}) {
    const StatusOr<ModelShapes> model = ReadShapesFile(unreadable);
    EXPECT_EQ(model.status().code(), gwInvalidArgument) << unreadable;
  }
}

}  // namespace
}  // namespace gradwire
