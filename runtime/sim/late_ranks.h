// Ranks in virtual time, of which some come late or leave, as tests have them.
#ifndef GRADWIRE_RUNTIME_SIM_LATE_RANKS_H_
#define GRADWIRE_RUNTIME_SIM_LATE_RANKS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {

inline constexpr int kRanks = 3;
inline constexpr int64_t kOpTimeoutNs = 300 * kNsPerMs;
// More than what a rank that left is given to deliver its last words.
inline constexpr int64_t kLateNs = 1500 * kNsPerMs;
inline constexpr int64_t kBoundNs = 30 * kNsPerSecond;

// One float a rank: rank r gives r + 1.
class LateRanks : public testing::Test {
 protected:
  explicit LateRanks(int64_t op_timeout_ns = 0)
      : LateRanks(JobOptions{.world_size = kRanks, .op_timeout_ns = op_timeout_ns}) {}
  explicit LateRanks(const JobOptions& options) : job_(options) {}

  std::shared_ptr<Operation> Submit(int rank, Collective collective, int root = 0) {
    const RawOp op = {.collective = collective,
                      .send = reinterpret_cast<const std::byte*>(&values_[rank]),
                      .recv = reinterpret_cast<std::byte*>(&sums_[rank]),
                      .count = 1,
                      .root = root};
    return job_[rank].SubmitRaw(
        op,
        **ChooseAlgorithm({.collective = collective, .world_size = kRanks, .bytes = sizeof(float)}),
        job_[rank].turn());
  }

  // One float to or from `peer`.
  std::shared_ptr<Transfer> Post(int rank, Transfer::Kind kind, int peer) {
    auto transfer = std::make_shared<Transfer>();
    transfer->kind = kind;
    transfer->peer = peer;
    const bool is_send = kind == Transfer::Kind::kSend;
    transfer->memory = reinterpret_cast<std::byte*>(is_send ? &values_[rank] : &sums_[rank]);
    transfer->count = 1;
    transfer->dtype = DType::kFloat32;
    job_[rank].core().Post(transfer);
    return transfer;
  }

  void EndStep(int rank) { job_[rank].EndStep({.number = 1, .turn = job_[rank].turn()}); }

  bool RunUntil(const std::function<bool()>& done) { return job_.RunUntil(done, kBoundNs); }
  bool RunUntilDone(const Operation& operation) {
    return RunUntil([&] { return operation.done.load(); });
  }
  bool RunUntilTurn(uint16_t turn) {
    return RunUntil(
        [&] { return job_[0].turn() == turn && job_[1].turn() == turn && job_[2].turn() == turn; });
  }
  bool RunUntilFatal(int rank) {
    return RunUntil([&, rank] { return !job_[rank].fatal().ok(); });
  }
  bool BeLate() {
    return RunUntil([this, late_ns = job_.now_ns() + kLateNs] { return job_.now_ns() >= late_ns; });
  }
  bool Leave(int rank) {
    job_.SayBye(rank);
    const bool may = RunUntil([&, rank] { return job_.MayLeave(rank); });
    job_.Kill(rank);
    return may;
  }

  void ExpectMisses(int rank, int gone) {
    const Status& fatal = job_[rank].fatal();
    EXPECT_EQ(fatal.code(), gwPeerLost) << rank;
    EXPECT_EQ(fatal.detail().peer, gone) << rank;
    EXPECT_THAT(fatal.ToString(), testing::HasSubstr("rank " + std::to_string(gone) + " has left"))
        << rank;
  }

  std::array<float, kRanks> values_ = {1, 2, 3}, sums_ = {};
  SimJob job_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_LATE_RANKS_H_
