#include <gtest/gtest.h>

#include <set>
#include <string>

#include "transports/transport.h"

namespace gradwire {
namespace {

TEST(TransportRegistryTest, RowsAreComplete) {
  std::set<std::string> names;
  for (const TransportRow& row : Transports()) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_FALSE(row.doc.empty()) << row.name;
    EXPECT_NE(row.make, nullptr) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << "two rows are called " << row.name;
  }
  EXPECT_TRUE(names.count("loopback"));
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
  EXPECT_NE(found.status().detail().hint.find("loopback?"), std::string::npos)
      << found.status().ToString();
}

}  // namespace
}  // namespace gradwire
