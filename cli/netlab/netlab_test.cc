#include "cli/netlab/netlab.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

constexpr char kProcNetDev[] =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
    "fifo colls carrier compressed\n"
    "    lo:     100       1    0    0    0     0          0         0      100       1    0    0  "
    "  "
    "0     0       0          0\n"
    "    e0:    2000      20    1    2    3     4          5         6     3000      30    7    8  "
    "  "
    "9    10      11         12\n";

TEST(ParseInterfaceCounters, ReadsTheColumnsOfItsInterface) {
  const StatusOr<InterfaceCounters> counters = ParseInterfaceCounters(kProcNetDev, "e0");
  ASSERT_TRUE(counters.ok()) << counters.status().ToString();
  EXPECT_EQ(counters->rx_bytes, 2000);
  EXPECT_EQ(counters->rx_packets, 20);
  EXPECT_EQ(counters->rx_dropped, 2);
  EXPECT_EQ(counters->tx_bytes, 3000);
  EXPECT_EQ(counters->tx_packets, 30);
  EXPECT_EQ(counters->tx_dropped, 8);
}

TEST(ParseInterfaceCounters, OtherInterfacesAndBrokenLinesAreErrors) {
  EXPECT_FALSE(ParseInterfaceCounters(kProcNetDev, "e").ok());
  EXPECT_FALSE(ParseInterfaceCounters(kProcNetDev, "").ok());
  EXPECT_FALSE(ParseInterfaceCounters("e0: 1 2 3\n", "e0").ok());
  EXPECT_FALSE(ParseInterfaceCounters("", "e0").ok());
}

TEST(CountersJson, HasARowForEachRank) {
  const auto json = nlohmann::json::parse(CountersJson("1gbit", {{.at_s = 20.5, .rate = "100mbit"}},
                                                       {{.tx_bytes = 5}, {.rx_packets = 6}}));
  EXPECT_EQ(json["netlab"], "1gbit");
  EXPECT_EQ(json["ranks"][0]["tx_bytes"], 5);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_EQ(json["ranks"][1]["rx_packets"], 6);
  EXPECT_EQ(json["rate_changes"].size(), 1u);
  EXPECT_EQ(json["rate_changes"][0]["at_s"], 20.5);
  EXPECT_EQ(json["rate_changes"][0]["rate"], "100mbit");
  EXPECT_TRUE(nlohmann::json::parse(CountersJson("", {}, {}))["netlab"].is_null());
}

// Also inside a build's sandbox, where there is no /run/netns.
TEST(Netlab, BuildsItsLinksWhereItIsAllowedTo) {
  if (!NetNamespace::Create().ok()) GTEST_SKIP() << "this process may not make namespaces";
  const StatusOr<Netlab> lab = Netlab::Create(
      2, {.rate_bits_per_s = 10'000'000'000, .least_rate_bits_per_s = 1'000'000'000});
  ASSERT_TRUE(lab.ok()) << lab.status().ToString();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(lab->Counters(rank).ok());
    EXPECT_GE(lab->namespace_fd(rank), 0);
  }
  EXPECT_NE(lab->namespace_fd(0), lab->namespace_fd(1));
  EXPECT_EQ(Netlab::Address(1), "10.77.0.2");
  EXPECT_TRUE(lab->Reshape(1'000'000'000).ok());
}

TEST(NetNamespace, AFailingToolIsAnErrorWithItsOwnWords) {
  const StatusOr<NetNamespace> made = NetNamespace::Create();
  if (!made.ok()) GTEST_SKIP() << "this process may not make namespaces";
  const Status status = made->Run({"ip", "-batch", "-"}, "link set nothing up\n").status();
  EXPECT_EQ(status.code(), gwSystemError);
  EXPECT_NE(status.ToString().find("nothing"), std::string::npos) << status.ToString();
  EXPECT_FALSE(made->Run({"no-such-tool"}, "").ok());
}

TEST(NetNamespace, AToolWhoseEndNobodyLearnsIsNoSuccess) {
  const StatusOr<NetNamespace> made = NetNamespace::Create();
  if (!made.ok()) GTEST_SKIP() << "this process may not make namespaces";
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const Status status = made->Run({"false"}, "").status();
  std::signal(SIGCHLD, before);
  EXPECT_EQ(status.code(), gwSystemError) << status.ToString();
}

}  // namespace
}  // namespace gradwire
