// What is particular to the simulated network; what every transport must do is in
// tests/conformance.
#include "transports/sim/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/lib/recording_sink.h"
#include "transports/frame/frame.h"

namespace gradwire {
namespace {

// A network with all ends connected, and what each rank was told.
class World {
 public:
  explicit World(const SimOptions& options) : network(*SimNetwork::Make(options)) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < options.world_size; ++rank) {
      ends.push_back(std::move(*network->MakeEnd(rank)));
      addresses.push_back(ends.back()->address());
    }
    for (auto& end : ends) EXPECT_TRUE(end->Connect(addresses).ok());
    for (int rank = 0; rank < options.world_size; ++rank) sinks.emplace_back(&network->clock());
  }

  SendOutcome Send(int src, int dst, FrameHeader header, const std::string& bytes) {
    header.src = static_cast<uint16_t>(src);
    return ends[src]->TrySend(
        dst, header,
        {reinterpret_cast<const std::byte*>(bytes.data()), static_cast<int64_t>(bytes.size())},
        next_token_++);
  }
  void Poll() {
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      if (ends[rank]) ends[rank]->Progress(&sinks[rank]);
    }
  }
  void Run() {
    do Poll();
    while (network->AdvanceToNextEvent());
    Poll();
  }
  void RunUntil(int64_t now_ns) {
    network->clock().Set(now_ns);
    Poll();
  }

  std::shared_ptr<SimNetwork> network;
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<RecordingSink> sinks;

 private:
  SendToken next_token_ = 1;
};

constexpr SimOptions kPlain = {
    .world_size = 3, .alpha_ns = 1000, .beta_ns_per_byte = 1, .slots = 4};
constexpr int64_t kWireNs = 64 + 36;  // of the 36 bytes below
const std::string kText(36, 'x');

TEST(SimNetworkTest, FragmentTakesAlphaAndBetaPerByte) {
  World world(kPlain);
  world.Send(0, 1, {.message = 1}, kText);
  world.Send(0, 1, {.message = 2}, kText);
  world.Run();
  ASSERT_EQ(world.sinks[1].arrivals.size(), 2u);
  EXPECT_EQ(world.sinks[1].arrivals[0].at_ns, 1000 + kWireNs);
  EXPECT_EQ(world.sinks[1].arrivals[1].at_ns, 1000 + 2 * kWireNs);
}

TEST(SimNetworkTest, ASlowerWireTakesLongerPerByteFromThenOn) {
  World world(kPlain);
  world.Send(0, 1, {.message = 1}, kText);
  world.Run();
  world.network->SlowDown(3);
  world.Send(0, 1, {.message = 2}, kText);
  world.Run();
  ASSERT_EQ(world.sinks[1].arrivals.size(), 2u);
  const int64_t begin_ns = world.sinks[1].arrivals[0].at_ns;
  EXPECT_EQ(world.sinks[1].arrivals[1].at_ns - begin_ns, 1000 + 3 * kWireNs);
}

TEST(SimNetworkTest, ManySendersShareTheReceiversPort) {
  World world(kPlain);
  world.Send(0, 2, {.message = 1}, kText);
  world.Send(1, 2, {.message = 2}, kText);
  world.Run();
  ASSERT_EQ(world.sinks[2].arrivals.size(), 2u);
  EXPECT_EQ(world.sinks[2].arrivals[1].at_ns - world.sinks[2].arrivals[0].at_ns, kWireNs);
}

TEST(SimNetworkTest, ProgressDeliversWhatTheClockHasPassed) {
  World world(kPlain);
  world.Send(0, 1, {.message = 1}, kText);
  world.RunUntil(kWireNs - 1);
  EXPECT_TRUE(world.sinks[0].sent.empty());
  world.RunUntil(kWireNs);
  EXPECT_EQ(world.sinks[0].sent.size(), 1u);
  EXPECT_TRUE(world.sinks[1].arrivals.empty());
  world.RunUntil(1'000'000);
  EXPECT_EQ(world.sinks[1].arrivals.size(), 1u);
  EXPECT_FALSE(world.network->NextEventNs().has_value());
}

TEST(SimNetworkTest, QueueOfAPairIsBoundedUntilConsumed) {
  World world(kPlain);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(world.Send(0, 1, {.message = i}, kText), SendOutcome::kAccepted);
  }
  EXPECT_EQ(world.Send(0, 1, {.message = 4}, kText), SendOutcome::kFull);
  EXPECT_EQ(world.Send(0, 2, {.message = 4}, kText), SendOutcome::kAccepted);
  while (world.network->AdvanceToNextEvent()) {
  }
  EXPECT_EQ(world.Send(0, 1, {.message = 4}, kText), SendOutcome::kFull);
  world.Poll();
  EXPECT_EQ(world.Send(0, 1, {.message = 4}, kText), SendOutcome::kAccepted);
}

// The transport may read a source until OnSent, and this one does: a driver that writes too early
// is caught.
TEST(SimNetworkTest, SourceIsReadWhenItLeaves) {
  World world(kPlain);
  std::string text = kText;
  world.Send(0, 1, {.message = 1}, text);
  text[0] = '!';
  world.Run();
  ASSERT_EQ(world.sinks[1].arrivals.size(), 1u);
  EXPECT_EQ(world.sinks[1].arrivals[0].bytes, text);
}

// Twenty messages of two fragments each.
std::vector<Arrival> JitteredRun(const SimOptions& options, uint64_t* digest) {
  World world(options);
  for (uint32_t i = 0; i < 40; ++i) {
    const FrameHeader header = {.message = i / 2, .offset = 64 * (i % 2)};
    EXPECT_EQ(world.Send(0, 1, header, kText), SendOutcome::kAccepted);
  }
  world.Run();
  EXPECT_EQ(world.sinks[1].arrivals.size(), 40u);
  *digest = world.network->digest();
  return world.sinks[1].arrivals;
}

bool InOrder(const std::vector<Arrival>& arrivals) {
  for (size_t i = 1; i < arrivals.size(); ++i) {
    if (arrivals[i].header.message < arrivals[i - 1].header.message) return false;
  }
  return true;
}

TEST(SimNetworkTest, JitterReordersMessagesAndNeverTheirFragments) {
  SimOptions options = {.world_size = 2, .jitter_ns = 100'000, .slots = 64};
  uint64_t digest = 0;
  const std::vector<Arrival> arrivals = JitteredRun(options, &digest);
  EXPECT_FALSE(InOrder(arrivals));
  std::vector<uint32_t> next(20, 0);
  for (const Arrival& arrival : arrivals) {
    EXPECT_EQ(arrival.header.offset, next[arrival.header.message]);
    next[arrival.header.message] += 64;
  }
  options.reorder = false;
  EXPECT_TRUE(InOrder(JitteredRun(options, &digest)));
}

TEST(SimNetworkTest, SameSeedSameRun) {
  SimOptions options = {.world_size = 2, .seed = 5, .jitter_ns = 100'000, .slots = 64};
  uint64_t first = 0, again = 0, other = 0;
  JitteredRun(options, &first);
  JitteredRun(options, &again);
  options.seed = 6;
  JitteredRun(options, &other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(SimNetworkTest, RankOrderIsASeededPermutation) {
  World a({.world_size = 8, .seed = 3}), b({.world_size = 8, .seed = 3});
  bool changes = false;
  for (int i = 0; i < 10; ++i) {
    std::vector<int> order = a.network->RankOrder();
    EXPECT_EQ(order, b.network->RankOrder());
    changes |= !std::is_sorted(order.begin(), order.end());
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  }
  EXPECT_TRUE(changes);
}

TEST(SimNetworkTest, WhatHasLeftTheDeadStillArrives) {
  SimOptions options = kPlain;
  options.detect_ns = 5000;
  World world(options);
  world.Send(0, 1, {.message = 1}, kText);
  world.Send(0, 1, {.message = 2}, kText);  // leaves at 2 * kWireNs
  world.Send(1, 0, {.message = 3}, kText);
  world.network->KillAt(0, kWireNs + 1);
  world.Run();
  EXPECT_FALSE(world.network->alive(0));
  ASSERT_EQ(world.sinks[1].arrivals.size(), 1u);
  EXPECT_EQ(world.sinks[1].arrivals[0].header.message, 1u);
  EXPECT_EQ(world.sinks[1].sent.size(), 1u);
  const int64_t known_ns = kWireNs + 1 + 5000;
  for (int rank : {1, 2}) {
    EXPECT_EQ(world.sinks[rank].lost, std::vector<int>{0});
    EXPECT_EQ(world.sinks[rank].lost_at_ns, std::vector<int64_t>{known_ns});
  }
  EXPECT_EQ(world.Send(1, 0, {.message = 4}, kText), SendOutcome::kLost);
  EXPECT_EQ(world.Send(0, 1, {.message = 4}, kText), SendOutcome::kLost);
  EXPECT_TRUE(world.sinks[0].arrivals.empty());
}

TEST(SimNetworkTest, NothingComesAfterALossWasReported) {
  SimOptions options = kPlain;
  options.detect_ns = 10;
  World world(options);
  world.Send(0, 1, {.message = 1}, kText);
  world.network->KillAt(0, kWireNs + 1);
  world.Run();
  EXPECT_TRUE(world.sinks[1].arrivals.empty());
  EXPECT_EQ(world.sinks[1].lost.size(), 1u);
  EXPECT_EQ(world.network->stats().dropped, 1);
}

TEST(SimNetworkTest, CutHoldsUntilHealed) {
  World world(kPlain);
  world.network->CutAt(0, 1, 0);
  world.network->HealAt(0, 1, 50'000);
  world.Send(0, 1, {.message = 1}, kText);
  world.Send(0, 1, {.message = 2}, kText);
  world.Send(0, 2, {.message = 3}, kText);
  world.RunUntil(40'000);
  EXPECT_TRUE(world.sinks[1].arrivals.empty());
  EXPECT_EQ(world.sinks[2].arrivals.size(), 1u);
  EXPECT_TRUE(world.sinks[1].lost.empty());
  world.Run();
  ASSERT_EQ(world.sinks[1].arrivals.size(), 2u);
  EXPECT_EQ(world.sinks[1].arrivals[0].header.message, 1u);
  EXPECT_EQ(world.sinks[1].arrivals[0].at_ns, 50'000);
  EXPECT_EQ(world.sinks[1].arrivals[1].header.message, 2u);
}

TEST(SimNetworkTest, CorruptsOneBitOfTheChosenFragment) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimOptions options = kPlain;
    options.seed = seed;
    World world(options);
    world.network->CorruptFragment(1);
    FrameHeader header = {.message_bytes = 36, .fragment_bytes = 36};
    const ConstBytes fragment(reinterpret_cast<const std::byte*>(kText.data()), 36);
    SealFrame(&header, fragment);
    for (int i = 0; i < 3; ++i) world.Send(0, 1, header, kText);
    world.Run();
    ASSERT_EQ(world.sinks[1].arrivals.size(), 3u);
    for (int i = 0; i < 3; ++i) {
      const Arrival& arrival = world.sinks[1].arrivals[i];
      const ConstBytes bytes(reinterpret_cast<const std::byte*>(arrival.bytes.data()), 36);
      const FrameVerdict verdict =
          CheckFrame(arrival.header, bytes, {.world_size = 3, .max_message_bytes = 64}, nullptr);
      EXPECT_EQ(verdict, i == 1 ? FrameVerdict::kCorrupt : FrameVerdict::kValid) << "seed " << seed;
    }
    EXPECT_EQ(world.network->stats().corrupted, 1);
  }
}

TEST(SimNetworkTest, CancelDropsWhatHasNotLeft) {
  World world(kPlain);
  world.Send(0, 1, {.op_seq = 5, .message = 1}, kText);
  world.Send(0, 1, {.op_seq = 5, .message = 2}, kText);
  world.Send(0, 1, {.op_seq = 6, .message = 3}, kText);
  world.Send(0, 1, {.flags = kFramePointToPoint, .op_seq = 5, .message = 4}, kText);
  world.RunUntil(kWireNs);
  world.ends[0]->Cancel(5);
  world.Run();
  ASSERT_EQ(world.sinks[1].arrivals.size(), 3u);
  EXPECT_EQ(world.sinks[1].arrivals[0].header.message, 1u);
  EXPECT_EQ(world.sinks[1].arrivals[1].header.message, 3u);
  EXPECT_EQ(world.sinks[1].arrivals[2].header.message, 4u);
  EXPECT_EQ(world.sinks[0].sent.size(), 4u);
}

TEST(SimNetworkTest, RefusesImpossibleOptions) {
  EXPECT_EQ(SimNetwork::Make({.world_size = 0}).status().code(), gwInvalidArgument);
  EXPECT_EQ(SimNetwork::Make({.alpha_ns = -1}).status().code(), gwInvalidArgument);
  EXPECT_EQ(SimNetwork::Make({.fragment_bytes = 1}).status().code(), gwInvalidArgument);
  auto network = SimNetwork::Make({.world_size = 1});
  ASSERT_TRUE(network.ok());
  EXPECT_EQ((*network)->MakeEnd(1).status().code(), gwInvalidArgument);
  auto end = (*network)->MakeEnd(0);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ((*network)->MakeEnd(0).status().code(), gwInvalidUsage);
}

}  // namespace
}  // namespace gradwire
