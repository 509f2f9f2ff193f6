#include "cli/operation_names.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ParseCollective, KnowsItsOwnNames) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    const StatusOr<Collective> parsed = ParseCollective(Name(collective));
    ASSERT_TRUE(parsed.ok()) << Name(collective);
    EXPECT_EQ(*parsed, collective);
  }
}

TEST(ParseCollective, SpellingsOfOtherToolsAreFine) {
  for (const char* text : {"allreduce", "all_reduce", "AllReduce", "ALL-REDUCE"}) {
    const StatusOr<Collective> parsed = ParseCollective(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, Collective::kAllReduce);
  }
}

TEST(ParseCollective, SuggestsTheNearest) {
  const StatusOr<Collective> parsed = ParseCollective("brodcast");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().ToString().find("'broadcast'"), std::string::npos);
  EXPECT_EQ(ParseCollective("quux").status().detail().hint.find("There are: "), 0u);
  EXPECT_FALSE(ParseCollective("").ok());
}

TEST(ParseDType, SuggestsTheNearest) {
  ASSERT_TRUE(ParseDType("bfloat16").ok());
  EXPECT_EQ(*ParseDType("bfloat16"), DType::kBfloat16);
  const StatusOr<DType> parsed = ParseDType("flaot");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().ToString().find("'float'"), std::string::npos);
  EXPECT_EQ(ParseDType("quux").status().detail().hint.find("There are: "), 0u);
}

TEST(ParseDType, SpellingsOfOtherToolsAreFine) {
  for (const auto& [text, dtype] : {std::pair("bf16", DType::kBfloat16),
                                    {"fp16", DType::kFloat16},
                                    {"float16", DType::kFloat16},
                                    {"fp32", DType::kFloat32},
                                    {"float32", DType::kFloat32},
                                    {"fp64", DType::kFloat64},
                                    {"float64", DType::kFloat64}}) {
    const StatusOr<DType> parsed = ParseDType(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, dtype) << text;
  }
}

TEST(ParseOneOrAll, TakesBoth) {
  ASSERT_TRUE(ParseDTypes("all").ok());
  EXPECT_EQ(ParseDTypes("all")->size(), static_cast<size_t>(kDTypes));
  ASSERT_TRUE(ParseReduceOps("all").ok());
  EXPECT_EQ(ParseReduceOps("all")->size(), static_cast<size_t>(kReduceOps));
  ASSERT_TRUE(ParseReduceOps("max").ok());
  EXPECT_EQ(*ParseReduceOps("max"), std::vector{ReduceOp::kMax});
  const StatusOr<std::vector<ReduceOp>> parsed = ParseReduceOps("som");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().ToString().find("'sum'"), std::string::npos);
}

}  // namespace
}  // namespace gradwire
