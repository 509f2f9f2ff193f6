#include "base/forks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gradwire {
namespace {

TEST(ForkGeneration, DiffersInAChildOnly) {
  const uint32_t mine = ForkGeneration();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ForkGeneration() != mine ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(ForkGeneration(), mine);
}

}  // namespace
}  // namespace gradwire
