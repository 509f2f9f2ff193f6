// Every function of the public header refuses a child of fork, without a lock that a thread of the
// parent may have held.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/conformance/capi_scene.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

// In the child: 0 if every function refuses, else the number of the row that did not.
int CallAllInChild(Scene& scene) {
  int row = 0;
  for (const ApiFunction& function : ApiFunctions()) {
    ++row;
    if (function.rule == CallRule::kNoComm) continue;
    const bool refused = function.call(scene) == gwInvalidUsage;
    const std::string text = gwGetLastError(scene.comm);
    if (!refused || text.find("fork") == std::string::npos) return row;
  }
  return gwRequestFree(scene.request) == gwInvalidUsage ? 0 : row + 1;
}

TEST(CapiFork, RefusesTheChild) {
  RunScene("", [](Scene& scene) {
    if (scene.rank == 0) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) _exit(CallAllInChild(scene));
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      const int row = WEXITSTATUS(status);
      EXPECT_EQ(row, 0) << (row > 0 && row <= static_cast<int>(ApiFunctions().size())
                                ? ApiFunctions()[row - 1].symbol
                                : "gwRequestFree");
    }
    EXPECT_TRUE(AllReduceWorks(scene.rank, kSceneRanks, scene.comm));
  });
}

}  // namespace
}  // namespace gradwire
