#include "cli/measure/plan_change.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

using Json = nlohmann::json;

TEST(PlanChange, IsReadAsItWasWritten) {
  const Json written = Json::parse(PlanChangeJson({.step = 7,
                                                   .change = "w none -> bf16",
                                                   .why = "faster",
                                                   .predicted_ms = 3,
                                                   .was_ms = 5,
                                                   .measured_ms = 4})
                                       .dump());
  EXPECT_TRUE(written.at("error").is_null());
  const PlanChange plan = PlanChangeOf(written);
  EXPECT_EQ(plan.step, 7u);
  EXPECT_EQ(plan.change, "w none -> bf16");
  EXPECT_EQ(plan.why, "faster");
  EXPECT_EQ(plan.predicted_ms, 3);
  EXPECT_EQ(plan.was_ms, 5);
  EXPECT_EQ(plan.measured_ms, 4);
  EXPECT_EQ(plan.error, std::nullopt);
  EXPECT_EQ(plan.bound, std::nullopt);
}

TEST(PlanChange, MayLackWhatOtherVersionsDoNotWrite) {
  const Json json = {
      {"step", 3}, {"change", "a"}, {"why", "b"}, {"predicted_ms", 1.5}, {"was_ms", 2}};
  EXPECT_EQ(PlanChangeOf(json).measured_ms, std::nullopt);
  EXPECT_THROW(PlanChangeOf({{"step", 3}}), Json::exception);
}

}  // namespace
}  // namespace gradwire
