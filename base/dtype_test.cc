#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace gradwire {
namespace {

TEST(DType, NumbersAreNccls) {
  EXPECT_EQ(static_cast<int>(DType::kInt8), 0);
  EXPECT_EQ(static_cast<int>(DType::kUint64), 5);
  EXPECT_EQ(static_cast<int>(DType::kFloat16), 6);
  EXPECT_EQ(static_cast<int>(DType::kFloat32), 7);
  EXPECT_EQ(static_cast<int>(DType::kBfloat16), 9);
  EXPECT_EQ(static_cast<int>(ReduceOp::kSum), 0);
  EXPECT_EQ(static_cast<int>(ReduceOp::kAvg), 4);
  EXPECT_EQ(kDTypes, 10);
  EXPECT_EQ(kReduceOps, 5);
}

TEST(DType, NamesLeadBack) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = DTypeFromInt(i);
    ASSERT_TRUE(dtype.has_value()) << i;
    EXPECT_TRUE(names.insert(Name(*dtype)).second) << Name(*dtype);
    EXPECT_EQ(DTypeFromName(Name(*dtype)), dtype);
  }
  EXPECT_EQ(Name(DType::kFloat32), "float");
  EXPECT_EQ(Name(DType::kBfloat16), "bfloat16");
  for (int i = 0; i < kReduceOps; ++i) {
    const auto op = ReduceOpFromInt(i);
    ASSERT_TRUE(op.has_value()) << i;
    EXPECT_EQ(ReduceOpFromName(Name(*op)), op);
  }
  EXPECT_EQ(Name(ReduceOp::kAvg), "avg");
}

TEST(DType, StrangersAreRefused) {
  for (const int64_t value : {int64_t{-1}, int64_t{kDTypes}, int64_t{1} << 32, INT64_MIN}) {
    EXPECT_FALSE(DTypeFromInt(value).has_value()) << value;
    EXPECT_FALSE(ReduceOpFromInt(value).has_value()) << value;
  }
  EXPECT_FALSE(ReduceOpFromInt(kReduceOps).has_value());
  for (const char* name : {"", "Float", "float ", "floa", "float32"}) {
    EXPECT_FALSE(DTypeFromName(name).has_value()) << name;
    EXPECT_FALSE(ReduceOpFromName(name).has_value()) << name;
  }
}

TEST(DType, SizesAndKinds) {
  constexpr int kBytes[kDTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  for (int i = 0; i < kDTypes; ++i) {
    EXPECT_EQ(SizeOf(static_cast<DType>(i)), kBytes[i]) << i;
    EXPECT_EQ(IsFloat(static_cast<DType>(i)), i >= 6) << i;
  }
}

TEST(DTypeSet, HoldsWhatItWasMadeOf) {
  constexpr DTypeSet kEmpty;
  constexpr DTypeSet kTwo = {DType::kInt8, DType::kBfloat16};
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_FALSE(kEmpty.contains(dtype));
    EXPECT_EQ(kTwo.contains(dtype), dtype == DType::kInt8 || dtype == DType::kBfloat16);
    EXPECT_EQ(kFloatTypes.contains(dtype), IsFloat(dtype) && dtype != DType::kFloat64);
  }
}

}  // namespace
}  // namespace gradwire
