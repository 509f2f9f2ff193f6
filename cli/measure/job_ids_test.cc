#include "cli/measure/job_ids.h"

#include <gtest/gtest.h>

#include <thread>

namespace gradwire {
namespace {

gwUniqueId IdOf(char mark) {
  gwUniqueId id = {};
  id.internal[0] = mark;
  return id;
}

TEST(JobIds, WhoComesForOneWaitsUntilItIsGiven) {
  JobIds ids;
  ids.Give(IdOf('a'));
  std::thread rank([&] {
    EXPECT_EQ(ids.Await(0)->internal[0], 'a');
    EXPECT_EQ(ids.Await(1)->internal[0], 'b');
  });
  ids.Give(IdOf('b'));
  rank.join();
}

TEST(JobIds, NobodyWaitsForOneThatWillNotCome) {
  JobIds ids;
  ids.Give(IdOf('a'));
  std::thread rank([&] { EXPECT_EQ(ids.Await(1).status().code(), gwPeerLost); });
  ids.End();
  rank.join();
  EXPECT_EQ(ids.Await(0)->internal[0], 'a') << "given before";
}

}  // namespace
}  // namespace gradwire
