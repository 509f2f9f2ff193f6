#include "cli/launch/rank_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::Pair;

const JobAddress kJob = {
    .ranks = 4, .host = "10.77.0.1", .root_port = 29400, .master_port = 29500, .secret = "ab"};

TEST(RankVariables, TellRankJobAndSecret) {
  const Variables variables = RankVariables(kJob, 2);
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_RANK", "2")));
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_WORLD_SIZE", "4")));
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_LOCAL_RANK", "2")));
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_ROOT", "10.77.0.1:29400")));
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_PORT", "0")));
  EXPECT_THAT(variables, Contains(Pair("GRADWIRE_SECRET", "ab")));
}

TEST(RankVariables, AreThoseOfTorchrunToo) {
  const Variables variables = RankVariables(kJob, 3);
  EXPECT_THAT(variables, Contains(Pair("RANK", "3")));
  EXPECT_THAT(variables, Contains(Pair("WORLD_SIZE", "4")));
  EXPECT_THAT(variables, Contains(Pair("LOCAL_RANK", "3")));
  EXPECT_THAT(variables, Contains(Pair("LOCAL_WORLD_SIZE", "4")));
  EXPECT_THAT(variables, Contains(Pair("MASTER_ADDR", "10.77.0.1")));
  EXPECT_THAT(variables, Contains(Pair("MASTER_PORT", "29500")));
}

TEST(SeparateHostVariables, NameTheRateOnlyWhereThereIsOne) {
  EXPECT_THAT(SeparateHostVariables(1, "e0", "1gbit"), Contains(Pair("GRADWIRE_NETLAB", "1gbit")));
  const Variables unshaped = SeparateHostVariables(1, "lo", "");
  EXPECT_THAT(unshaped, Contains(Pair("GRADWIRE_HOST_ID", "1")));
  EXPECT_THAT(unshaped, Contains(Pair("GRADWIRE_INTERFACE", "lo")));
  EXPECT_THAT(unshaped, Not(Contains(Pair("GRADWIRE_NETLAB", testing::_))));
}

TEST(PathWithFirst, PutsTheFolderInFront) {
  EXPECT_EQ(PathWithFirst("/opt/bin", "/usr/bin:/bin"), "/opt/bin:/usr/bin:/bin");
  EXPECT_EQ(PathWithFirst("/opt/bin", ""), "/opt/bin");
}

TEST(MakeSecret, Is256BitsAndNeverTheSame) {
  const StatusOr<std::string> one = MakeSecret(), other = MakeSecret();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), 64u);
  EXPECT_EQ(one->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(*one, *other);
}

TEST(FindFreePort, StaysBelowTheKernelsOwnRange) {
  const StatusOr<int> port = FindFreePort("127.0.0.1");
  ASSERT_TRUE(port.ok()) << port.status().ToString();
  EXPECT_GE(*port, 20000);
  EXPECT_LT(*port, 32000);
  EXPECT_FALSE(FindFreePort("not an address").ok());
}

}  // namespace
}  // namespace gradwire
