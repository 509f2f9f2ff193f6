// Messages of two ranks in one thread, with a clock that stands: who is early, who gives up, and
// frames that nobody correct sends.
#include "collectives/drivers/point_to_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/drivers/event_driver.h"
#include "transports/frame/frame.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

constexpr uint64_t kJob = 77;
constexpr int64_t kMessageBytes = 1024;
constexpr int64_t kTimeoutNs = 5 * kNsPerSecond;
constexpr int kSender = 0, kReceiver = 1;

class TwoRanks : public testing::Test {
 protected:
  explicit TwoRanks(int64_t pause_ns = INT64_MAX) {
    const auto hub = *MakeLoopbackHub({.world_size = 2, .fragment_bytes = 128, .slots = 2});
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      transports_[rank] = std::move(*MakeLoopbackEnd(hub, rank));
      addresses.push_back(transports_[rank]->address());
      messages_[rank] =
          std::make_unique<PointToPoint>(transports_[rank].get(), &clock_,
                                         PointToPoint::Options{.rank = rank,
                                                               .world_size = 2,
                                                               .job = kJob,
                                                               .max_message_bytes = kMessageBytes,
                                                               .timeout_ns = kTimeoutNs,
                                                               .pause_ns = pause_ns});
      drivers_[rank] = std::make_unique<EventDriver>(
          transports_[rank].get(), EventDriver::Options{.rank = rank,
                                                        .world_size = 2,
                                                        .job = kJob,
                                                        .max_message_bytes = kMessageBytes,
                                                        .point_to_point = messages_[rank].get()});
    }
    for (auto& transport : transports_) EXPECT_TRUE(transport->Connect(addresses).ok());
  }

  std::shared_ptr<Transfer> Post(int rank, std::vector<int32_t>* values) {
    return Post(rank, rank == kSender ? Transfer::Kind::kSend : Transfer::Kind::kRecv, values);
  }
  std::shared_ptr<Transfer> Post(int rank, Transfer::Kind kind, std::vector<int32_t>* values) {
    auto transfer = std::make_shared<Transfer>();
    transfer->kind = kind;
    transfer->peer = 1 - rank;
    transfer->memory = reinterpret_cast<std::byte*>(values->data());
    transfer->count = static_cast<int64_t>(values->size());
    transfer->dtype = DType::kInt32;
    messages_[rank]->Post(transfer);
    return transfer;
  }
  void PollUntilStill() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < 2; ++rank) {
        moved |= drivers_[rank]->Poll();
        moved |= messages_[rank]->Poll();
      }
    }
  }
  // A frame made by hand in the name of the sender's rank.
  void Arrive(FrameHeader header, int64_t bytes) {
    const std::vector<std::byte> payload(bytes);
    const ConstBytes fragment = {payload.data(), bytes};
    header.flags = kFramePointToPoint;
    header.src = kSender;
    header.job = kJob;
    header.fragment_bytes = static_cast<uint32_t>(bytes);
    if (header.message_bytes == 0) header.message_bytes = header.fragment_bytes;
    SealFrame(&header, fragment);
    drivers_[kReceiver]->OnFragment(kSender, header, fragment);
  }
  void ExpectEnd(const Transfer& transfer, gwResult_t code) {
    ASSERT_TRUE(transfer.done);
    EXPECT_EQ(transfer.status.code(), code) << transfer.status.ToString();
  }

  ManualClock clock_;
  std::array<std::unique_ptr<Transport>, 2> transports_;
  std::array<std::unique_ptr<PointToPoint>, 2> messages_;
  std::array<std::unique_ptr<EventDriver>, 2> drivers_;
};

TEST_F(TwoRanks, MoveManyMessagesWhoeverIsEarly) {
  for (const bool sender_first : {true, false}) {
    std::vector<std::vector<int32_t>> sent(50), got(50);
    std::vector<std::shared_ptr<Transfer>> transfers;
    for (int i = 0; i < 50; ++i) {
      sent[i].resize(i * 37);
      std::iota(sent[i].begin(), sent[i].end(), i * 10'000);
      got[i].resize(sent[i].size());
    }
    const int first = sender_first ? kSender : kReceiver;
    for (auto& values : sender_first ? sent : got) transfers.push_back(Post(first, &values));
    PollUntilStill();
    EXPECT_FALSE(transfers.front()->done);
    EXPECT_FALSE(messages_[first]->idle());
    for (auto& values : sender_first ? got : sent) transfers.push_back(Post(1 - first, &values));
    PollUntilStill();
    for (const auto& transfer : transfers) ExpectEnd(*transfer, gwSuccess);
    EXPECT_EQ(got, sent);
    for (const auto& messages : messages_) EXPECT_TRUE(messages->idle() && messages->Quiet());
  }
  EXPECT_EQ(drivers_[kReceiver]->counters().staged_bytes, 0) << "nothing is copied aside";
}

TEST_F(TwoRanks, WhoGivesUpTellsTheOtherWhenItComes) {
  std::vector<int32_t> values(5, 1), later(3, 2), got(5), got_later(3);
  const auto send = Post(kSender, &values);
  clock_.Advance(kTimeoutNs + 1);
  messages_[kSender]->CheckTimes();
  ExpectEnd(*send, gwTimeout);
  const auto recv = Post(kReceiver, &got);
  PollUntilStill();
  ExpectEnd(*recv, gwRemoteError);
  // The other way round: the receiver gives up before the send is called.
  const auto second = Post(kReceiver, &got);
  PollUntilStill();
  clock_.Advance(kTimeoutNs + 1);
  messages_[kReceiver]->CheckTimes();
  ExpectEnd(*second, gwTimeout);
  PollUntilStill();
  ExpectEnd(*Post(kSender, &values), gwRemoteError);
  // What comes next is met.
  const auto last_send = Post(kSender, &later), last_recv = Post(kReceiver, &got_later);
  PollUntilStill();
  ExpectEnd(*last_send, gwSuccess);
  ExpectEnd(*last_recv, gwSuccess);
  EXPECT_EQ(got_later, later);
}

// The transport may hold what it accepted for as long as it likes.
TEST_F(TwoRanks, ASendThatFailsGivesItsMemoryBackAtOnce) {
  std::vector<int32_t> values(500, 1), got(500, 0);
  const auto recv = Post(kReceiver, &got), send = Post(kSender, &values);
  messages_[kReceiver]->Poll();
  drivers_[kSender]->Poll();
  messages_[kSender]->Poll();
  EXPECT_FALSE(messages_[kSender]->Quiet());
  clock_.Advance(kTimeoutNs + 1);
  messages_[kSender]->CheckTimes();
  ExpectEnd(*send, gwTimeout);
  EXPECT_FALSE(messages_[kSender]->Quiet());
  std::ranges::fill(values, -1);
  PollUntilStill();
  ExpectEnd(*recv, gwRemoteError);
  EXPECT_EQ(got[0], 1) << "what was accepted came";
  EXPECT_EQ(std::ranges::count(got, -1), 0);
}

TEST_F(TwoRanks, ManyReceivesAreGivenUpTogether) {
  std::vector<int32_t> values(3, 1), got(3);
  std::vector<std::shared_ptr<Transfer>> receives;
  for (int i = 0; i < 6000; ++i) receives.push_back(Post(kReceiver, &got));
  PollUntilStill();
  clock_.Advance(kTimeoutNs + 1);
  messages_[kReceiver]->CheckTimes();
  PollUntilStill();
  for (const auto& recv : receives) {
    ExpectEnd(*recv, gwTimeout);
    ExpectEnd(*Post(kSender, &values), gwRemoteError);
  }
  const auto send = Post(kSender, &values), recv = Post(kReceiver, &got);
  PollUntilStill();
  ExpectEnd(*send, gwSuccess);
  ExpectEnd(*recv, gwSuccess);
  EXPECT_EQ(got, values);
}

// More than a rank keeps of what comes before its sends. kSender receives here, and the other
// sends.
TEST_F(TwoRanks, AReadyBehindWhatGivesItUpIsForgotten) {
  constexpr uint32_t kReady = 1, kReceives = 65;
  std::vector<int32_t> sent(5, 7), got(5);
  std::vector<std::shared_ptr<Transfer>> receives;
  for (uint32_t i = 0; i < kReceives; ++i)
    receives.push_back(Post(kSender, Transfer::Kind::kRecv, &got));
  PollUntilStill();
  clock_.Advance(kTimeoutNs + 1);
  messages_[kSender]->CheckTimes();
  for (const auto& recv : receives) ExpectEnd(*recv, gwTimeout);
  PollUntilStill();
  for (uint32_t i = 0; i < kReceives; ++i) Arrive({.op_seq = i, .message = kReady}, 16);
  for (uint32_t i = 0; i < kReceives; ++i)
    ExpectEnd(*Post(kReceiver, Transfer::Kind::kSend, &sent), gwRemoteError);
  const auto recv = Post(kSender, Transfer::Kind::kRecv, &got);
  PollUntilStill();
  const auto send = Post(kReceiver, Transfer::Kind::kSend, &sent);
  PollUntilStill();
  ExpectEnd(*send, gwSuccess);
  ExpectEnd(*recv, gwSuccess);
  EXPECT_EQ(got, sent);
}

TEST_F(TwoRanks, AnOlderWordOfWhatIsGivenUpTakesNothingBack) {
  constexpr uint32_t kGivenUp = 2;
  Arrive({.op_seq = 3, .message = kGivenUp}, 16);
  Arrive({.op_seq = 1, .message = kGivenUp}, 16);
  std::vector<int32_t> sent(5, 7);
  for (int i = 0; i < 4; ++i)
    ExpectEnd(*Post(kReceiver, Transfer::Kind::kSend, &sent), gwRemoteError);
  EXPECT_TRUE(messages_[kReceiver]->idle());
}

// It has room for two words.
TEST_F(TwoRanks, APeerThatTakesNothingIsNotAwaitedForEver) {
  std::vector<int32_t> got(3);
  std::vector<std::shared_ptr<Transfer>> receives;
  for (int i = 0; i < 16; ++i) receives.push_back(Post(kReceiver, &got));
  messages_[kReceiver]->Poll();
  clock_.Advance(kTimeoutNs);
  messages_[kReceiver]->CheckTimes();
  EXPECT_FALSE(receives.back()->done);
  EXPECT_EQ(messages_[kReceiver]->StillNs(kSender), kTimeoutNs);
  clock_.Advance(1);
  messages_[kReceiver]->CheckTimes();
  for (const auto& recv : receives) ExpectEnd(*recv, gwTimeout);
  EXPECT_TRUE(messages_[kReceiver]->idle());
  EXPECT_EQ(messages_[kReceiver]->StillNs(kSender), 0);
}

// What a receive says that was called later is not dropped with older words.
TEST_F(TwoRanks, AReadyHasTheTimeOfItsCall) {
  std::vector<int32_t> got(3);
  const Status damage(gwDataCorrupt, "a fragment was damaged");
  for (int i = 0; i < 4; ++i) messages_[kReceiver]->OnDamage(kSender, damage);
  messages_[kReceiver]->Poll();
  clock_.Advance(kTimeoutNs / 2);
  const auto late = Post(kReceiver, &got);
  messages_[kReceiver]->Poll();
  clock_.Advance(kTimeoutNs / 2 + 1);
  messages_[kReceiver]->CheckTimes();
  EXPECT_FALSE(late->done);
  EXPECT_FALSE(messages_[kReceiver]->idle());
  std::vector<int32_t> values = {1, 2, 3};
  const auto sent = Post(kSender, &values);
  PollUntilStill();
  ExpectEnd(*sent, gwSuccess);
  ExpectEnd(*late, gwSuccess);
  EXPECT_EQ(got, values);
}

TEST_F(TwoRanks, WordsHaveTheirTimeFromWhenTheyAreSaid) {
  std::vector<int32_t> got(3);
  const auto recv = Post(kReceiver, &got);
  PollUntilStill();
  clock_.Advance(kTimeoutNs + 1);
  messages_[kReceiver]->CheckTimes();
  ExpectEnd(*recv, gwTimeout);
  EXPECT_FALSE(messages_[kReceiver]->idle()) << "that it is given up is to be said";
  PollUntilStill();
  EXPECT_TRUE(messages_[kReceiver]->idle());
  ExpectEnd(*Post(kSender, &got), gwRemoteError);
}

class RanksThatMayPause : public TwoRanks {
 protected:
  static constexpr int64_t kPauseNs = kTimeoutNs / 2;
  RanksThatMayPause() : TwoRanks(kPauseNs) {}
};

// What waits: a receive, and words for which there is no room.
TEST_F(RanksThatMayPause, HaveTheirTimesFromTheEndOfAPause) {
  std::vector<int32_t> got(3);
  std::vector<std::shared_ptr<Transfer>> receives;
  for (int i = 0; i < 8; ++i) receives.push_back(Post(kReceiver, &got));
  messages_[kReceiver]->Poll();
  messages_[kReceiver]->CheckTimes();
  clock_.Advance(10 * kTimeoutNs);
  messages_[kReceiver]->CheckTimes();
  EXPECT_EQ(messages_[kReceiver]->StillNs(kSender), 0);
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(kPauseNs);
    messages_[kReceiver]->CheckTimes();
    for (const auto& recv : receives) EXPECT_FALSE(recv->done);
  }
  clock_.Advance(1);
  messages_[kReceiver]->CheckTimes();
  for (const auto& recv : receives) ExpectEnd(*recv, gwTimeout);
}

TEST_F(RanksThatMayPause, GoOnAfterIt) {
  std::vector<int32_t> got(3), values = {1, 2, 3};
  const auto recv = Post(kReceiver, &got);
  messages_[kReceiver]->CheckTimes();
  clock_.Advance(10 * kTimeoutNs);
  messages_[kReceiver]->CheckTimes();
  const auto send = Post(kSender, &values);
  PollUntilStill();
  ExpectEnd(*send, gwSuccess);
  ExpectEnd(*recv, gwSuccess);
  EXPECT_EQ(got, values);
}

TEST_F(TwoRanks, DamageEndsBothDirections) {
  std::vector<int32_t> values(3), got(3);
  const auto recv = Post(kReceiver, &got);
  const auto send = Post(kReceiver, Transfer::Kind::kSend, &values);
  messages_[kReceiver]->OnDamage(kSender, Status(gwDataCorrupt, "a frame was damaged"));
  ExpectEnd(*recv, gwDataCorrupt);
  ExpectEnd(*send, gwDataCorrupt);
}

// What comes is lost on the way, and the sender is told that something was.
class DamagesAll : public Sink {
 public:
  explicit DamagesAll(PointToPoint* messages) : messages_(messages) {}
  void OnFragment(int peer, const FrameHeader&, ConstBytes) override {
    ++damaged;
    messages_->OnDamage(peer, Status(gwDataCorrupt, "a frame was damaged"));
  }
  void OnSent(SendToken) override {}
  void OnPeerLost(int, const Status&) override {}
  int damaged = 0;

 private:
  PointToPoint* messages_;
};

TEST_F(TwoRanks, AReadyThatWasDamagedBeforeItsSendEndsBoth) {
  std::vector<int32_t> lost(3), sent(3, 5), got(3);
  const auto recv = Post(kReceiver, &lost);
  messages_[kReceiver]->Poll();
  DamagesAll sink(messages_[kSender].get());
  transports_[kSender]->Progress(&sink);
  ASSERT_EQ(sink.damaged, 1);
  PollUntilStill();
  ExpectEnd(*recv, gwRemoteError);
  ExpectEnd(*Post(kSender, &sent), gwRemoteError);

  const auto next = Post(kReceiver, &got);
  PollUntilStill();
  const auto send = Post(kSender, &sent);
  PollUntilStill();
  ExpectEnd(*send, gwSuccess);
  ExpectEnd(*next, gwSuccess);
  EXPECT_EQ(got, sent);
}

TEST_F(TwoRanks, FailTogetherWithTheirPeer) {
  std::vector<int32_t> values(5);
  const auto send = Post(kSender, &values);
  messages_[kSender]->FailAll(Status(gwPeerLost, "rank 1 is lost"));
  ExpectEnd(*send, gwPeerLost);
  EXPECT_TRUE(messages_[kSender]->idle());
}

// Full, but for every `k`-th frame that it is asked to take. What it refuses it damages: a checksum
// that is computed again would be another one.
class SeldomHasRoom : public Transport {
 public:
  static constexpr int kAsked = 3;
  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override { return {}; }
  Status Connect(std::span<const std::string>) override { return Status(); }
  SendOutcome TrySend(int, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    headers.push_back(header);
    if (headers.size() % kAsked == 0) {
      accepted.push_back(token);
      return SendOutcome::kAccepted;
    }
    if (fragment.size > 0) *const_cast<std::byte*>(fragment.data) ^= std::byte{1};
    return SendOutcome::kFull;
  }
  int Progress(Sink*) override { return 0; }
  Status Wait(int64_t) override { return Status(); }
  void Wake() override {}
  void Cancel(uint32_t) override {}
  std::vector<FrameHeader> headers;
  std::vector<SendToken> accepted;

 private:
  const TransportCaps caps_ = {.max_fragment_bytes = 64, .fragments_in_flight = 8};
};

TEST(PointToPoint, AFragmentThatFindsNoRoomIsSealedOnce) {
  const ManualClock clock;
  SeldomHasRoom transport;
  PointToPoint messages(&transport, &clock, {.world_size = 2, .max_message_bytes = kMessageBytes});
  std::vector<int32_t> values(32);
  std::iota(values.begin(), values.end(), 0);
  auto send = std::make_shared<Transfer>();
  send->peer = kReceiver;
  send->memory = reinterpret_cast<std::byte*>(values.data());
  send->count = 32;
  send->dtype = DType::kInt32;
  messages.Post(send);
  const struct {
    uint64_t count = 32;
    uint32_t dtype = static_cast<uint32_t>(DType::kInt32);
    int32_t code = 0;
  } words;
  messages.OnFragment(kReceiver, {.message = 1},
                      {reinterpret_cast<const std::byte*>(&words), sizeof words});
  for (int i = 0; i < 2 * SeldomHasRoom::kAsked; ++i) messages.Poll();
  ASSERT_EQ(transport.headers.size(), 2u * SeldomHasRoom::kAsked);
  for (size_t i = 0; i < transport.headers.size(); ++i) {
    const FrameHeader& first = transport.headers[i - i % SeldomHasRoom::kAsked];
    EXPECT_EQ(transport.headers[i].offset, first.offset) << i;
    EXPECT_EQ(transport.headers[i].fragment_crc, first.fragment_crc) << i;
  }
  EXPECT_NE(transport.headers.front().fragment_crc, transport.headers.back().fragment_crc);
  for (const SendToken token : transport.accepted) messages.OnSent(token);
  EXPECT_TRUE(send->done && send->status.ok());
}

// ---- frames that nobody correct sends ----

TEST_F(TwoRanks, DataThatNobodyAskedForChangeNothing) {
  Arrive({.op_seq = 0, .message = 0}, 20);
  std::vector<int32_t> sent(5, 9), got(5);
  const auto recv = Post(kReceiver, &got), send = Post(kSender, &sent);
  PollUntilStill();
  ExpectEnd(*send, gwSuccess);
  ExpectEnd(*recv, gwSuccess);
  EXPECT_EQ(got, sent);
}

TEST_F(TwoRanks, DataOutOfPlaceEndTheReceive) {
  const FrameHeader wrong[] = {{.slice = 1},                         // beyond the memory
                               {.slice = 0xffffffff},                //
                               {.offset = 64, .message_bytes = 84},  // and longer
                               {.message_bytes = 1000},              // another length
                               {.message = 5},                       // no such kind
                               {.op_seq = 7}};                       // not yet asked for
  uint32_t next = 0;
  for (FrameHeader header : wrong) {
    const std::vector<int32_t> before(5, -1);
    std::vector<int32_t> got = before;
    const auto recv = Post(kReceiver, &got);
    header.op_seq += next++;
    Arrive(header, header.message_bytes == 1000 ? 64 : 20);
    ExpectEnd(*recv, gwDataCorrupt);
    EXPECT_EQ(got, before);
  }
}

TEST_F(TwoRanks, WordsThatMeanNothingEndTheReceive) {
  for (const uint32_t message : {1u, 2u, 3u}) {
    std::vector<int32_t> got(5);
    const auto recv = Post(kReceiver, &got);
    Arrive({.message = message}, 15);
    ExpectEnd(*recv, gwDataCorrupt);
  }
}

TEST_F(TwoRanks, NobodyIsReadyForeverAhead) {
  std::vector<int32_t> got(5);
  const auto recv = Post(kReceiver, &got);
  for (uint32_t number = 0; number < 5000; ++number) Arrive({.op_seq = number, .message = 1}, 16);
  ExpectEnd(*recv, gwDataCorrupt);
}

}  // namespace
}  // namespace gradwire
