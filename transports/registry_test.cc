#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "transports/transport.h"

namespace gradwire {
namespace {

TEST(TransportRegistryTest, RowsAreComplete) {
  std::set<std::string> names;
  for (const TransportRow& row : Transports()) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_FALSE(row.doc.empty()) << row.name;
    EXPECT_NE(row.make, nullptr) << row.name;
    EXPECT_TRUE(row.within_host || row.between_hosts) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << "two rows are called " << row.name;
  }
  EXPECT_TRUE(names.count("loopback"));
}

TEST(TransportRegistryTest, LoopbackIsNotForProcesses) {
  const std::vector<std::string> names = ProcessTransports();
  EXPECT_EQ(names.size(), Transports().size() - 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "loopback"), 0);
}

TEST(TransportRegistryTest, FindsByName) {
  for (const TransportRow& row : Transports()) {
    auto found = FindTransport(row.name);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, &row);
  }
}

TEST(TransportRegistryTest, UnknownNameSuggestsTheNearest) {
  auto found = FindTransport("lopback");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), gwInvalidArgument);
  EXPECT_NE(found.status().detail().hint.find("'loopback'?"), std::string::npos)
      << found.status().ToString();
}

TEST(TransportRegistryTest, ANameLikeNoOtherGetsTheList) {
  const Status status = FindTransport("rdma").status();
  EXPECT_EQ(status.detail().hint.find("This build has "), 0u) << status.ToString();
}

TEST(TransportRegistryTest, MakesBySpec) {
  const TransportOptions options = {.rank = 0, .world_size = 1, .job = 4711};
  for (const char* spec : {"loopback", "faulty(loopback)", "faulty(loopback,seed=1,delay=0.5)",
                           "faulty(faulty(loopback,full=0.1),delay=0.1)"}) {
    auto made = MakeTransport(spec, options);
    ASSERT_TRUE(made.ok()) << spec << ": " << made.status().ToString();
    EXPECT_TRUE((*made)->Connect(std::vector<std::string>{(*made)->address()}).ok()) << spec;
  }
  for (const char* spec : {"", "faulty", "faulty(", "faulty()", "faulty(nothing)",
                           "faulty(loopback", "faulty(loopback,delay=2)", "loopback(1)"}) {
    EXPECT_EQ(MakeTransport(spec, options).status().code(), gwInvalidArgument) << spec;
  }
}

TEST(TransportRegistryTest, RowOfASpecLooksThroughFaulty) {
  for (const TransportRow& row : Transports()) {
    for (const std::string& spec : {row.name, "faulty(" + row.name + ",delay=0.1)"}) {
      auto found = RowOfSpec(spec);
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      EXPECT_EQ(*found, &row) << spec;
    }
  }
  EXPECT_EQ(RowOfSpec("nothing").status().code(), gwInvalidArgument);
  EXPECT_EQ(RowOfSpec("faulty(loopback,delay=2)").status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
