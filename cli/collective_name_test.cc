#include "cli/collective_name.h"

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
  EXPECT_FALSE(ParseCollective("").ok());
}

}  // namespace
}  // namespace gradwire
