// A rank that has nothing left to reach another by ends the job on all ranks, in its own name: no
// peer is blamed for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

TEST(ShortRank, IsTheOneThatIsNamed) {
  constexpr int kRoot = 1, kRanks = 3;
  std::vector<std::string> errors(kRanks);
  RunRanks(kRanks, "transport=faulty(loopback,run_short_at=50)", [&](int rank, gwComm_t comm) {
    gwResult_t result = gwSuccess;
    // The root sends the most, so that it comes to its fiftieth fragment first.
    for (int round = 0; round < 1000 && result == gwSuccess; ++round) {
      float value = 1;
      result = gwBroadcast(&value, &value, 1, gwFloat32, kRoot, comm, nullptr);
    }
    EXPECT_EQ(result, gwSystemError);
    errors[rank] = gwGetLastError(comm);
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("rank 1 has nothing left to reach rank "),
                                      testing::HasSubstr("ulimit -n")));
  }
}

}  // namespace
}  // namespace gradwire
