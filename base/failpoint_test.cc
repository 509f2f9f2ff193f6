#include "base/failpoint.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace gradwire {
namespace {

class FailpointTest : public testing::Test {
 protected:
  ~FailpointTest() override { EXPECT_TRUE(ArmFailpoint("").ok()); }
};
using FailpointDeathTest = FailpointTest;

TEST_F(FailpointTest, PassesWhatIsNotArmed) {
  PassFailpoint(Failpoint::kVote);
  ASSERT_TRUE(ArmFailpoint("vote").ok());
  PassFailpoint(Failpoint::kSlice);
  ASSERT_TRUE(ArmFailpoint("").ok());
  PassFailpoint(Failpoint::kVote);
}

TEST_F(FailpointDeathTest, KillsTheProcess) {
  for (size_t i = 1; i < kFailpointNames.size(); ++i) {
    EXPECT_EXIT(
        {
          (void)ArmFailpoint(kFailpointNames[i]);
          PassFailpoint(static_cast<Failpoint>(i));
        },
        testing::KilledBySignal(SIGKILL), "")
        << kFailpointNames[i];
  }
}

TEST_F(FailpointDeathTest, CountsThePasses) {
  ASSERT_TRUE(ArmFailpoint("slice:3").ok());
  PassFailpoint(Failpoint::kSlice);
  PassFailpoint(Failpoint::kSlice);
  EXPECT_EXIT(PassFailpoint(Failpoint::kSlice), testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FailpointTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"votes", "vote:", "vote:0", "vote:-1", "vote:2x", ":2:3", "Vote"}) {
    EXPECT_EQ(ArmFailpoint(text).code(), gwInvalidArgument) << text;
  }
  EXPECT_NE(ArmFailpoint("votes").detail().hint.find("'vote'?"), std::string::npos);
  EXPECT_EQ(ArmFailpoint("quux").detail().hint.find("There are: hello, roster, "), 0u);
}

}  // namespace
}  // namespace gradwire
