#include "runtime/file_claim.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ClaimFile, EachJobHasFilesOfItsOwn) {
  EXPECT_EQ(ClaimFile("/tmp/a", 1), "/tmp/a");
  EXPECT_EQ(ClaimFile("/tmp/a", 1), "/tmp/a") << "another rank of the job, in the same process";
  EXPECT_EQ(ClaimFile("/tmp/a", 0xbc), "/tmp/a-00000000000000bc");
  EXPECT_EQ(ClaimFile("/tmp/b", 0xbc), "/tmp/b");
}

}  // namespace
}  // namespace gradwire
