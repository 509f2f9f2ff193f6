#include "transports/bootstrap/vain_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace gradwire {
namespace {

using testing::HasSubstr;

class VainWaitTest : public testing::Test {
 protected:
  VainWait WaitOf(int rank) {
    return VainWait({.rank = rank,
                     .world_size = 4,
                     .launch_board = board_->Text(),
                     .clock = &clock_,
                     .cancelled = &cancelled_});
  }

  ManualClock clock_;
  std::atomic<bool> cancelled_{false};
  StatusOr<LaunchBoard> board_ = LaunchBoard::Make(4);
};

TEST_F(VainWaitTest, RankZeroWaitsForNobodyWhoHasEnded) {
  VainWait wait = WaitOf(0);
  EXPECT_TRUE(wait.Check().ok());
  clock_.Advance(100 * kNsPerSecond);
  EXPECT_TRUE(wait.Check().ok()) << "a late rank runs";
  board_->NoteKilled(2, SIGKILL);
  EXPECT_TRUE(wait.Check().ok()) << "its last words may be under way";
  clock_.Advance(kNsPerSecond / 2);
  EXPECT_TRUE(wait.Check().ok());
  clock_.Advance(kNsPerSecond / 2);
  EXPECT_EQ(wait.Check().code(), gwPeerLost);
  EXPECT_EQ(wait.Check().detail().peer, 2);
  EXPECT_THAT(wait.Check().ToString(), HasSubstr("was killed by signal 9 (Killed) before"));
}

// A guest that left by itself would be taken for the cause.
TEST_F(VainWaitTest, OthersWaitForTheWordOfRankZero) {
  VainWait wait = WaitOf(1);
  board_->NoteKilled(2, SIGKILL);
  EXPECT_TRUE(wait.Check().ok());
  clock_.Advance(100 * kNsPerSecond);
  EXPECT_TRUE(wait.Check().ok());
  board_->NoteExited(0, 1);
  EXPECT_TRUE(wait.Check().ok());
  clock_.Advance(kNsPerSecond);
  EXPECT_EQ(wait.Check().code(), gwPeerLost);
  EXPECT_EQ(wait.Check().detail().peer, 2) << "the cause, which rank 0 followed";
}

TEST_F(VainWaitTest, WhoIsCancelledWaitsNoLonger) {
  VainWait wait = WaitOf(1);
  cancelled_ = true;
  EXPECT_EQ(wait.Check().code(), gwRevoked);
}

TEST_F(VainWaitTest, WithoutABoardNothingIsKnown) {
  VainWait wait({.world_size = 4, .clock = &clock_});
  EXPECT_TRUE(wait.Check().ok());
}

}  // namespace
}  // namespace gradwire
