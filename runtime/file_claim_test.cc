#include "runtime/file_claim.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ClaimFile, EachHasAFileOfItsOwn) {
  EXPECT_EQ(ClaimFile("/tmp/a", 1, ".0"), "/tmp/a.0");
  EXPECT_EQ(ClaimFile("/tmp/a", 1, ".1"), "/tmp/a.1") << "another rank in the same process";
  EXPECT_EQ(ClaimFile("/tmp/a", 0xbc, ".1"), "/tmp/a-00000000000000bc.1");
  EXPECT_EQ(ClaimFile("/tmp/b", 1), "/tmp/b");
}

}  // namespace
}  // namespace gradwire
