// What the plan's faults look like. That faults within the contract leave it whole is for
// tests/conformance to say.
#include "transports/faulty/faulty_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/lib/recording_sink.h"
#include "transports/frame/frame.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

constexpr int kFragments = 100;
constexpr uint32_t kFragmentBytes = 64;

// Rank 0 is faulty and sends kFragments fragments, `per_message` to a message; rank 1
// listens.
class Trial {
 public:
  explicit Trial(const FaultPlan& plan, int per_message = 4) {
    auto hub = MakeLoopbackHub({.world_size = 2, .slots = 16});
    sender = MakeFaulty(std::move(*MakeLoopbackEnd(*hub, 0)), plan);
    receiver = std::move(*MakeLoopbackEnd(*hub, 1));
    const std::vector<std::string> addresses = {sender->address(), receiver->address()};
    EXPECT_TRUE(sender->Connect(addresses).ok() && receiver->Connect(addresses).ok());
    for (int i = 0; i < kFragments; ++i) {
      payloads.push_back(std::string(kFragmentBytes, static_cast<char>(i)));
      FrameHeader header = {.message = static_cast<uint32_t>(i / per_message),
                            .offset = static_cast<uint32_t>(kFragmentBytes * (i % per_message)),
                            .message_bytes = static_cast<uint32_t>(kFragmentBytes * per_message),
                            .fragment_bytes = kFragmentBytes};
      SealFrame(&header, Payload(i));
      headers.push_back(header);
    }
  }

  ConstBytes Payload(int i) const {
    return {reinterpret_cast<const std::byte*>(payloads[i].data()), kFragmentBytes};
  }

  // False: the peer is lost.
  bool Send(int i) {
    for (int attempts = 0; attempts < 10000; ++attempts) {
      const SendOutcome outcome = sender->TrySend(1, headers[i], Payload(i), i);
      if (outcome == SendOutcome::kLost) return false;
      if (outcome == SendOutcome::kAccepted) return true;
      ++refusals;
      Poll();
    }
    ADD_FAILURE() << "fragment " << i << " was never accepted";
    return false;
  }
  void Poll() {
    sender->Progress(&from);
    // What was sent may be written again.
    for (; scribbled < from.sent.size(); ++scribbled)
      payloads[from.sent[scribbled]].assign(kFragmentBytes, '!');
    receiver->Progress(&to);
  }
  void SendAll() {
    for (int i = 0; i < kFragments && Send(i); ++i) {
    }
    for (int i = 0; i < 100; ++i) Poll();
  }

  std::unique_ptr<Transport> sender, receiver;
  std::vector<std::string> payloads;
  std::vector<FrameHeader> headers;
  RecordingSink from, to;
  size_t scribbled = 0;
  int refusals = 0;
};

void ExpectEachTokenOnce(const Trial& run) {
  const std::set<SendToken> once(run.from.sent.begin(), run.from.sent.end());
  EXPECT_EQ(once.size(), run.from.sent.size());
  EXPECT_EQ(once.size(), static_cast<size_t>(kFragments));
}

TEST(FaultyTransportTest, EmptyPlanChangesNothing) {
  Trial run({});
  run.SendAll();
  ASSERT_EQ(run.to.arrivals.size(), static_cast<size_t>(kFragments));
  for (int i = 0; i < kFragments; ++i) {
    EXPECT_EQ(run.to.arrivals[i].bytes, std::string(kFragmentBytes, static_cast<char>(i)));
    EXPECT_EQ(std::memcmp(&run.to.arrivals[i].header, &run.headers[i], 64), 0);
  }
  ExpectEachTokenOnce(run);
}

TEST(FaultyTransportTest, DelayReordersMessagesAndNeverTheirFragments) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Trial run({.seed = seed, .delay = 0.3, .late_sent = 0.3});
    run.SendAll();
    const std::vector<uint32_t> messages = run.to.messages();
    EXPECT_FALSE(std::is_sorted(messages.begin(), messages.end())) << "seed " << seed;
    std::vector<uint32_t> next(kFragments, 0);
    for (const Arrival& arrival : run.to.arrivals) {
      EXPECT_EQ(arrival.header.offset, next[arrival.header.message]) << "seed " << seed;
      next[arrival.header.message] += kFragmentBytes;
      const int index = 4 * arrival.header.message + arrival.header.offset / kFragmentBytes;
      EXPECT_EQ(arrival.bytes, std::string(kFragmentBytes, static_cast<char>(index)))
          << "seed " << seed;
    }
    EXPECT_EQ(messages.size(), static_cast<size_t>(kFragments));
    ExpectEachTokenOnce(run);
  }
}

TEST(FaultyTransportTest, SamePlanSameFaults) {
  const FaultPlan plan = {.seed = 9, .delay = 0.3, .full = 0.2, .duplicate = 0.1};
  FaultPlan other = plan;
  other.seed = 10;
  Trial first(plan), again(plan), different(other);
  for (Trial* run : {&first, &again, &different}) run->SendAll();
  EXPECT_EQ(first.to.messages(), again.to.messages());
  EXPECT_EQ(first.refusals, again.refusals);
  EXPECT_NE(first.to.messages(), different.to.messages());
}

TEST(FaultyTransportTest, RefusalsDelayOnly) {
  Trial run({.full = 0.5});
  run.SendAll();
  EXPECT_GT(run.refusals, kFragments / 2);
  EXPECT_EQ(run.to.arrivals.size(), static_cast<size_t>(kFragments));
  ExpectEachTokenOnce(run);
}

// A refusal of the plan's own ends with no event, so a driver that sleeps on it must not sleep
// long.
TEST(FaultyTransportTest, WaitReturnsAfterARefusal) {
  Trial run({.full = 1});
  EXPECT_EQ(run.sender->TrySend(1, run.headers[0], run.Payload(0), 0), SendOutcome::kFull);
  EXPECT_TRUE(run.sender->Wait(INT64_MAX).ok());
}

int BitsApart(const Arrival& arrival, const FrameHeader& header, const std::string& bytes) {
  std::string a(64 + bytes.size(), 0), b = a;
  std::memcpy(a.data(), &arrival.header, 64);
  std::memcpy(b.data(), &header, 64);
  std::memcpy(a.data() + 64, arrival.bytes.data(), bytes.size());
  std::memcpy(b.data() + 64, bytes.data(), bytes.size());
  int bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bits += std::popcount(static_cast<unsigned char>(a[i] ^ b[i]));
  }
  return bits;
}

TEST(FaultyTransportTest, CorruptsOneBitOfTheChosenFragment) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Trial run({.seed = seed, .corrupt_at = 17});
    run.SendAll();
    ASSERT_EQ(run.to.arrivals.size(), static_cast<size_t>(kFragments));
    for (int i = 0; i < kFragments; ++i) {
      SCOPED_TRACE(testing::Message() << "fragment " << i << ", seed " << seed);
      const Arrival& arrival = run.to.arrivals[i];
      const std::string sent(kFragmentBytes, static_cast<char>(i));
      EXPECT_EQ(BitsApart(arrival, run.headers[i], sent), i == 17);
      const ConstBytes fragment(reinterpret_cast<const std::byte*>(arrival.bytes.data()),
                                kFragmentBytes);
      const FrameVerdict verdict = CheckFrame(arrival.header, fragment,
                                              {.world_size = 2, .max_message_bytes = 256}, nullptr);
      EXPECT_EQ(verdict, i == 17 ? FrameVerdict::kCorrupt : FrameVerdict::kValid);
    }
  }
}

TEST(FaultyTransportTest, CorruptsTheSignBelowTheSeal) {
  Trial run({.corrupt_sealed_at = 17});
  run.SendAll();
  ASSERT_EQ(run.to.arrivals.size(), static_cast<size_t>(kFragments));
  for (int i = 0; i < kFragments; ++i) {
    const Arrival& arrival = run.to.arrivals[i];
    std::string sent(kFragmentBytes, static_cast<char>(i));
    if (i == 17) sent[3] = static_cast<char>(sent[3] ^ 0x80);
    EXPECT_EQ(arrival.bytes, sent) << i;
    FrameHeader sealed = arrival.header;
    SealFrame(&sealed, {reinterpret_cast<const std::byte*>(arrival.bytes.data()), kFragmentBytes});
    EXPECT_EQ(std::memcmp(&sealed, &arrival.header, sizeof sealed), 0) << i;
  }
  ExpectEachTokenOnce(run);
}

TEST(FaultyTransportTest, DuplicatesFollowTheirOriginal) {
  Trial run({.delay = 0.2, .duplicate = 1});
  run.SendAll();
  ASSERT_EQ(run.to.arrivals.size(), static_cast<size_t>(2 * kFragments));
  std::vector<std::vector<uint32_t>> offsets(kFragments / 4);
  for (const Arrival& arrival : run.to.arrivals) {
    offsets[arrival.header.message].push_back(arrival.header.offset);
  }
  for (const auto& message : offsets) {
    EXPECT_EQ(message, (std::vector<uint32_t>{0, 0, 64, 64, 128, 128, 192, 192}));
  }
  ExpectEachTokenOnce(run);
}

TEST(FaultyTransportTest, LostPeerStaysLost) {
  Trial run({.delay = 0.3, .lose_at = 40});
  run.SendAll();
  EXPECT_LE(run.to.arrivals.size(), 40u);
  EXPECT_EQ(run.from.lost, (std::vector<int>{1}));
  EXPECT_EQ(run.from.sent.size(), 40u);  // accepted before: complete, sent or not
  EXPECT_EQ(run.sender->TrySend(1, run.headers[0], run.Payload(0), 0), SendOutcome::kLost);
  EXPECT_EQ(run.receiver->TrySend(0, run.headers[0], run.Payload(0), 0), SendOutcome::kAccepted);
  run.Poll();
  EXPECT_TRUE(run.from.arrivals.empty());  // nothing comes from it either
}

TEST(FaultyTransportTest, LossOfTheInnerTransportPasses) {
  Trial run({.delay = 1});
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(run.Send(i));
  run.receiver.reset();
  for (int i = 0; i < 20; ++i) run.sender->Progress(&run.from);
  EXPECT_EQ(run.from.lost, (std::vector<int>{1}));
  EXPECT_EQ(run.from.sent.size(), 8u);
  EXPECT_EQ(run.sender->TrySend(1, run.headers[0], run.Payload(0), 0), SendOutcome::kLost);
}

TEST(FaultyTransportTest, CancelDropsWhatIsHeld) {
  Trial run({.delay = 1, .delay_polls = 1000});
  for (int i = 0; i < 4; ++i) run.headers[i].op_seq = 5;
  run.headers[4].op_seq = 6;
  run.headers[8].op_seq = 5;
  run.headers[8].flags = kFramePointToPoint;
  for (int i : {0, 1, 2, 3, 4, 8}) EXPECT_TRUE(run.Send(i));
  run.sender->Cancel(5);
  for (int i = 0; i < 1100; ++i) run.Poll();
  std::vector<uint32_t> messages = run.to.messages();
  std::sort(messages.begin(), messages.end());
  EXPECT_EQ(messages, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(run.from.sent.size(), 6u);
}

}  // namespace
}  // namespace gradwire
