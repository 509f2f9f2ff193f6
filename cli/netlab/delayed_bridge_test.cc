#include "cli/netlab/delayed_bridge.h"

#include <gtest/gtest.h>

// What it does to frames is tested with real ranks, in run_test.py.

namespace gradwire {
namespace {

TEST(MacOf, IsAnAddressThatPortForUnderstands) {
  EXPECT_EQ(MacText(MacOf(1)), "02:67:77:00:00:01");
  EXPECT_EQ(MacText(MacOf(258)), "02:67:77:00:01:02");
  for (const int rank : {0, 1, 249, 300}) EXPECT_EQ(PortFor(MacOf(rank), 301), rank);
}

TEST(PortFor, OtherAddressesGoEverywhere) {
  EXPECT_EQ(PortFor(MacOf(2), 2), -1) << "no such rank";
  EXPECT_EQ(PortFor({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 2), -1);
  EXPECT_EQ(PortFor({0x01, 0x00, 0x5e, 0, 0, 1}, 2), -1);
}

TEST(DelayedBridge, APortThatIsNotThereIsAnError) {
  const StatusOr<NetNamespace> where = NetNamespace::Create();
  if (!where.ok()) GTEST_SKIP() << "this process may not make namespaces";
  const StatusOr<DelayedBridge> bridge = DelayedBridge::Start(*where, {"nothing"}, 1'000'000);
  ASSERT_FALSE(bridge.ok());
  EXPECT_EQ(bridge.status().code(), gwSystemError);
  EXPECT_NE(bridge.status().ToString().find("nothing"), std::string::npos)
      << bridge.status().ToString();
}

}  // namespace
}  // namespace gradwire
