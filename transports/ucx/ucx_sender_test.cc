// Watched peers over TCP: those that answer, and those that never do. UCX's other end is in the
// same process, and is kept from moving.
#include "transports/ucx/ucx_sender.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/lib/recording_sink.h"
#include "transports/ucx/ucx_receiver.h"

namespace gradwire {
namespace {

constexpr int64_t kDeathTimeoutNs = 8 * kNsPerSecond;

// A millisecond passes whenever somebody looks.
class HastyClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += kNsPerMs; }

 private:
  mutable int64_t now_ns_ = 0;
};

class UcxSenderTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("UCX_TLS", "tcp", 1);
    for (std::unique_ptr<UcxWorker>& worker : workers_) {
      StatusOr<std::unique_ptr<UcxWorker>> made =
          UcxWorker::Open({.world_size = 2, .death_timeout_ns = kDeathTimeoutNs});
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      worker = std::move(*made);
    }
    receiver_ = std::make_unique<UcxReceiver>(*workers_[1], SteadyClock(), 2);
    ASSERT_TRUE(receiver_->Start().ok());
    MakeSender(clock_);
  }

  void MakeSender(const Clock& clock) {
    sender_ = std::make_unique<UcxSender>(*workers_[0], clock, 0, 2, kDeathTimeoutNs);
    ASSERT_TRUE(sender_->Start().ok());
    sender_->SetAddresses({workers_[0]->address, workers_[1]->address});
  }

  void TearDown() override {
    if (sender_ != nullptr) sender_->Shutdown(kNsPerSecond);
    for (const auto& worker : workers_) {
      if (worker != nullptr) worker->Close();
    }
  }

  void Progress(UcxWorker& worker) { worker.api->ucp_worker_progress(worker.worker); }
  void ProgressSender() {
    Progress(*workers_[0]);
    sender_->AfterProgress();
    sender_->Report(&losses_);
  }

  ManualClock clock_{kNsPerSecond};
  HastyClock hasty_;
  std::unique_ptr<UcxWorker> workers_[2];
  std::unique_ptr<UcxReceiver> receiver_;  // the peer's
  std::unique_ptr<UcxSender> sender_;
  RecordingSink losses_;
};

TEST_F(UcxSenderTest, AWatchedPeerThatNeverAnswersIsLost) {
  sender_->Watch(1);
  ASSERT_TRUE(sender_->IsConnecting());
  clock_.Advance(kDeathTimeoutNs - 1);
  for (int i = 0; i < 1000; ++i) ProgressSender();
  EXPECT_TRUE(sender_->IsConnecting());
  EXPECT_TRUE(losses_.lost.empty()) << losses_.why;
  clock_.Advance(1);
  ProgressSender();
  ProgressSender();
  EXPECT_FALSE(sender_->IsConnecting());
  EXPECT_EQ(losses_.lost, std::vector<int>{1});
  EXPECT_NE(losses_.why.find("rank 1 was not connected within 8 s"), std::string::npos)
      << losses_.why;
}

TEST_F(UcxSenderTest, AWatchedPeerThatAnswersStays) {
  sender_->Watch(1);
  const Deadline deadline = Deadline::After(SteadyClock(), 60 * kNsPerSecond);
  while (sender_->IsConnecting() && !deadline.Expired(SteadyClock())) {
    ProgressSender();
    Progress(*workers_[1]);
  }
  EXPECT_FALSE(sender_->IsConnecting());
  clock_.Advance(10 * kDeathTimeoutNs);
  for (int i = 0; i < 1000; ++i) ProgressSender();
  EXPECT_TRUE(losses_.lost.empty()) << losses_.why;
}

// As the neighbour, whose endpoint is made at the start.
TEST_F(UcxSenderTest, APeerThatHasAnEndpointIsWatchedToo) {
  ASSERT_TRUE(sender_->Open(1).ok());
  EXPECT_FALSE(sender_->IsConnecting()) << "nobody wants anything of it yet";
  EXPECT_EQ(sender_->TrySend(1, {}, {}, 1), SendOutcome::kFull);
  EXPECT_TRUE(sender_->IsConnecting());
  clock_.Advance(kDeathTimeoutNs);
  ProgressSender();
  ProgressSender();
  EXPECT_EQ(losses_.lost, std::vector<int>{1});
  EXPECT_EQ(sender_->TrySend(1, {}, {}, 1), SendOutcome::kLost);
}

TEST_F(UcxSenderTest, ShutdownWaitsNoLongerThanItMay) {
  MakeSender(hasty_);
  const Deadline patience = Deadline::After(SteadyClock(), 60 * kNsPerSecond);
  while (sender_->TrySend(1, {}, {}, 1) != SendOutcome::kAccepted) {
    ASSERT_FALSE(patience.Expired(SteadyClock()));
    ProgressSender();
    Progress(*workers_[1]);
  }
  // The peer listens no more, and no more fits.
  const std::vector<std::byte> data(workers_[0]->plan.fragment_bytes);
  const ConstBytes all = {data.data(), static_cast<int64_t>(data.size())};
  for (int refused = 0; refused < 1000;) {
    refused += sender_->TrySend(1, {}, all, 1) == SendOutcome::kFull;
    ProgressSender();
  }
  const int64_t before_ns = hasty_.NowNs();
  sender_->Shutdown(300 * kNsPerMs);
  EXPECT_LE(hasty_.NowNs() - before_ns, 310 * kNsPerMs);
  sender_.reset();
}

TEST_F(UcxSenderTest, WithoutMemoryItIsNotThePeerThatHasGone) {
  const UcxApi* const real = workers_[0]->api;
  UcxApi without = *real;
  without.ucp_ep_create = [](ucp_worker_h, const ucp_ep_params_t*, ucp_ep_h*) {
    return UCS_ERR_NO_MEMORY;
  };
  workers_[0]->api = &without;
  sender_->Watch(1);
  workers_[0]->api = real;
  losses_.code_of_loss = gwSystemError;
  sender_->Report(&losses_);
  EXPECT_EQ(losses_.lost, std::vector<int>{1});
}

TEST_F(UcxSenderTest, NothingIsWatchedTwice) {
  sender_->Watch(1);
  sender_->Watch(1);
  clock_.Advance(kDeathTimeoutNs);
  ProgressSender();
  ProgressSender();
  EXPECT_EQ(losses_.lost, std::vector<int>{1});
  sender_->Watch(1);
  EXPECT_FALSE(sender_->IsConnecting());
}

}  // namespace
}  // namespace gradwire
