// Time-outs of what stands still while something else of the communicator moves in every poll, in
// virtual time.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kOpTimeoutNs = 300 * kNsPerMs;
// Between two rounds of polls: shorter than what makes the control plane doubt a rank.
constexpr int64_t kRoundNs = 5 * kNsPerMs;
// Rounds within which whatever has a bound has ended.
constexpr int kRounds = 2 * kOpTimeoutNs / kRoundNs;

class BusyRanks : public testing::Test {
 protected:
  std::shared_ptr<Transfer> Post(int rank, Transfer::Kind kind, int peer) {
    auto transfer = std::make_shared<Transfer>();
    transfer->kind = kind;
    transfer->peer = peer;
    transfer->memory = reinterpret_cast<std::byte*>(&message_[rank]);
    transfer->count = 1;
    transfer->dtype = DType::kInt32;
    job_[rank].core().Post(transfer);
    return transfer;
  }
  // Of one float. Not an all-reduce: only the root waits for the others.
  std::shared_ptr<Operation> SubmitReduce(int rank) {
    const RawOp op = {.collective = Collective::kReduce,
                      .send = reinterpret_cast<const std::byte*>(&value_[rank]),
                      .recv = reinterpret_cast<std::byte*>(&sum_[rank]),
                      .count = 1};
    return job_[rank].SubmitRaw(
        op,
        **ChooseAlgorithm(
            {.collective = Collective::kReduce, .world_size = kRanks, .bytes = sizeof(float)}),
        job_[rank].turn());
  }
  void PassTime() { job_.network().clock().Advance(kRoundNs); }
  void PollUntilStill(int rank) {
    while (job_[rank].Poll()) continue;
  }
  void ExpectOnTime(int64_t begin_ns) {
    EXPECT_GT(job_.now_ns() - begin_ns, kOpTimeoutNs);
    // All ranks hear of an abort, and all of its result: each takes a round.
    EXPECT_LE(job_.now_ns() - begin_ns, kOpTimeoutNs + 5 * kRoundNs);
  }

  std::array<int32_t, kRanks> message_ = {};
  std::array<float, kRanks> value_ = {1, 2, 3}, sum_ = {};
  SimJob job_ = SimJob({.world_size = kRanks, .op_timeout_ns = kOpTimeoutNs, .loopback = true});
};

// Rank 2 is polled only when it has something else to do.
TEST_F(BusyRanks, AMessageThatNobodyMeetsEndsWhileCollectivesMove) {
  for (const Transfer::Kind kind : {Transfer::Kind::kRecv, Transfer::Kind::kSend}) {
    const std::shared_ptr<Transfer> alone = Post(2, kind, 1);
    const int64_t begin_ns = job_.now_ns();
    for (int round = 0; round < kRounds && !alone->done; ++round) {
      std::array<std::shared_ptr<Operation>, kRanks> reduces;
      for (int rank = 0; rank < kRanks; ++rank) reduces[rank] = SubmitReduce(rank);
      PollUntilStill(0);
      PollUntilStill(1);
      PassTime();
      ASSERT_TRUE(job_[2].Poll()) << "rank 2 has nothing to do";
      PollUntilStill(0);
      EXPECT_TRUE(reduces[0]->done);
      EXPECT_EQ(sum_[0], 6.0f);
    }
    ASSERT_TRUE(alone->done);
    EXPECT_EQ(alone->status.code(), gwTimeout) << alone->status.ToString();
    EXPECT_EQ(alone->status.detail().peer, 1);
    ExpectOnTime(begin_ns);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(job_[rank].fatal().ok()) << job_[rank].fatal().ToString();
    EXPECT_EQ(job_[rank].turn(), 0) << "no turn was ended";
  }
}

// Ranks 0 and 1 exchange messages in every poll, and wait for rank 2, which does not come.
TEST_F(BusyRanks, AnOperationThatARankLacksEndsWhileMessagesMove) {
  const std::shared_ptr<Operation> reduce = SubmitReduce(0);
  const int64_t begin_ns = job_.now_ns();
  for (int round = 0; round < kRounds && job_[0].turn() == 0; ++round) {
    message_[0] = round;
    const auto sent = Post(0, Transfer::Kind::kSend, 1);
    const auto got = Post(1, Transfer::Kind::kRecv, 0);
    PassTime();
    // The receiver says that it is ready, and the sender sends; then both are through.
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(job_[1].Poll());
      ASSERT_TRUE(job_[0].Poll());
    }
    ASSERT_TRUE(sent->done && got->done);
    EXPECT_TRUE(got->status.ok()) << got->status.ToString();
    EXPECT_EQ(message_[1], round);
    PollUntilStill(2);
  }
  ASSERT_TRUE(reduce->done);
  EXPECT_EQ(reduce->status.code(), gwTimeout) << reduce->status.ToString();
  ExpectOnTime(begin_ns);
}

}  // namespace
}  // namespace gradwire
