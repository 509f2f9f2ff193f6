// The transport contract (transports/transport.h), on every transport of this build without being
// told of it: a row in the registry is enough. A transport that cannot work on this machine is
// skipped and says why.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/conformance/transport_fixture.h"
#include "transports/frame/frame.h"
#include "transports/sim/sim_network.h"

namespace gradwire::conformance {
namespace {

TEST_P(TransportTest, CapsAndAddressesAreSane) {
  MAKE_WORLD(world, 2);
  for (auto& end : world.ends) {
    EXPECT_GE(end->caps().max_fragment_bytes, 64);
    EXPECT_EQ(end->caps().max_fragment_bytes % 64, 0);
    EXPECT_GE(end->caps().fragments_in_flight, 1);
    EXPECT_FALSE(end->address().empty());
    EXPECT_LE(end->address().size(), 4096u);
  }
  EXPECT_NE(world.ends[0]->address(), world.ends[1]->address());
}

TEST_P(TransportTest, OneRankAloneIsQuiet) {
  MAKE_WORLD(world, 1);
  world.Settle();
  EXPECT_EQ(world.ends[0]->Progress(&world.rank(0)), 0);
  EXPECT_EQ(world.failure(), "");
}

TEST_P(TransportTest, ConnectWantsEveryAddress) {
  World world;
  auto ends = GetParam().make_ends(2, 0xC0FFEE, &world);
  if (!ends.ok()) GTEST_SKIP() << ends.status().ToString();
  const std::vector<std::string> too_few = {(*ends)[0]->address()};
  EXPECT_FALSE((*ends)[0]->Connect(too_few).ok());
}

TEST_P(TransportTest, PingPong) {
  MAKE_WORLD(world, 2);
  constexpr uint32_t kRounds = 100;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const int64_t bytes = round % 2 ? 1 : 1000;
    world.rank(0).Send(1, {.message = round}, bytes);
    ASSERT_TRUE(Exchange(&world, {round, round + 1})) << "ping " << round;
    world.rank(1).Send(0, {.message = round}, bytes);
    ASSERT_TRUE(Exchange(&world, {round + 1, round + 1})) << "pong " << round;
  }
}

TEST_P(TransportTest, EverySizeArrivesWhole) {
  MAKE_WORLD(world, 2);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  uint32_t message = 0;
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, most - 1,
                        most, most + 1, 3 * most + 7, int64_t{0}}) {
    world.rank(0).Send(1, {.message = message}, bytes);
    world.rank(1).Send(0, {.message = message++}, bytes);
  }
  EXPECT_TRUE(Exchange(&world, {message, message}));
}

TEST_P(TransportTest, AllToAllManyFragments) {
  constexpr int kRanks = 4;
  constexpr uint32_t kMessages = 5;
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  MAKE_WORLD(world, kRanks);
  RandomStream random(kSeed);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (int src = 0; src < kRanks; ++src) {
      for (int dst = 0; dst < kRanks; ++dst) {
        if (src == dst) continue;
        world.rank(src).Send(dst, {.op_seq = i % 2, .message = i}, random.Below(4 * most));
      }
    }
  }
  EXPECT_TRUE(Exchange(&world, std::vector<int64_t>(kRanks, kMessages * (kRanks - 1))));
}

// More than any queue takes, both ways, offered before anybody listens.
TEST_P(TransportTest, FloodInBothDirections) {
  MAKE_WORLD(world, 2);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  constexpr uint32_t kMessages = 60;
  for (uint32_t i = 0; i < kMessages; ++i) {
    world.rank(0).Send(1, {.message = i}, most);
    world.rank(1).Send(0, {.message = i}, most);
  }
  world.rank(0).Pump();
  world.rank(1).Pump();
  EXPECT_TRUE(Exchange(&world, {kMessages, kMessages}));
}

TEST_P(TransportTest, RandomTrafficArrives) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    MAKE_WORLD(world, static_cast<int>(2 + seed % 4));
    ASSERT_TRUE(RandomTraffic(&world, seed));
  }
}

// A rank that does not listen stops its senders, and only for itself.
TEST_P(TransportTest, DeafPeerHoldsUpNobodyElse) {
  MAKE_WORLD(world, 3);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  constexpr uint32_t kMessages = 40;
  for (uint32_t i = 0; i < kMessages; ++i) {
    world.rank(0).Send(2, {.message = i}, most);
    world.rank(0).Send(1, {.message = i}, most);
  }
  const Deadline deadline = Deadline::After(SteadyClock(), 20 * kNsPerSecond);
  while (world.rank(1).received() < kMessages && !deadline.Expired(SteadyClock())) {
    const bool busy0 = world.rank(0).Poll(), busy1 = world.rank(1).Poll();
    if (!busy0 && !busy1) world.idle();
  }
  EXPECT_EQ(world.rank(1).received(), kMessages);
  EXPECT_EQ(world.rank(2).received(), 0);
  EXPECT_TRUE(Exchange(&world, {0, kMessages, kMessages}));
}

// Where caps say so, a rank may rest once its last token has come back: its peers do not need it.
TEST_P(TransportTest, SentIsVisibleWhereCapsSaySo) {
  MAKE_WORLD(world, 3);
  if (!world.ends[0]->caps().accepted_is_visible) GTEST_SKIP() << "the sender must progress";
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  for (uint32_t round = 0; round < 4; ++round) {
    for (int peer : {1, 2}) {
      world.rank(0).Send(peer, {.message = 2 * round}, 0);
      world.rank(0).Send(peer, {.message = 2 * round + 1}, (round + 1) * most + 1);
    }
    EXPECT_TRUE(world.RunUntil([&] { return world.rank(0).AllSent(); })) << world.failure();
    const int64_t wanted = 2 * (round + 1);
    const Deadline deadline = Deadline::After(SteadyClock(), 10 * kNsPerSecond);
    while (world.rank(1).received() + world.rank(2).received() < 2 * wanted &&
           !deadline.Expired(SteadyClock())) {
      const bool busy1 = world.rank(1).PollOnly(), busy2 = world.rank(2).PollOnly();
      if (!busy1 && !busy2) world.idle();
    }
    EXPECT_EQ(world.rank(1).received(), wanted);
    EXPECT_EQ(world.rank(2).received(), wanted);
  }
  EXPECT_EQ(world.failure(), "");
}

TEST_P(TransportTest, TwoWorldsDoNotMix) {
  MAKE_WORLD(one, 2);
  MAKE_WORLD(two, 2);
  for (uint32_t i = 0; i < 5; ++i) {
    one.rank(0).Send(1, {.message = i}, 100);
    two.rank(0).Send(1, {.message = i}, 100);
  }
  EXPECT_TRUE(Exchange(&one, {0, 5}));
  EXPECT_TRUE(Exchange(&two, {0, 5}));
  one.Settle();
  EXPECT_EQ(one.failure(), "");
}

// --- Cancel

TEST_P(TransportTest, CancelCompletesTokensAndSparesOtherOperations) {
  MAKE_WORLD(world, 2);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  for (uint32_t i = 0; i < 4; ++i) {
    world.rank(0).Send(1, {.op_seq = 1, .message = i}, 3 * most);
    world.rank(0).Send(1, {.op_seq = 2, .message = i}, 3 * most);
  }
  world.rank(0).Pump();
  world.rank(0).Forget(1);
  world.ends[0]->Cancel(1);
  EXPECT_TRUE(world.RunUntil([&] { return world.rank(0).AllSent(); })) << world.failure();
  EXPECT_TRUE(world.RunUntil([&] {
    for (uint32_t i = 0; i < 4; ++i) {
      if (!world.rank(1).Received(0, {.op_seq = 2, .message = i})) return false;
    }
    return true;
  })) << world.failure();
  world.ends[0]->Cancel(77);  // nothing of that operation was ever queued
  world.Settle();
  EXPECT_EQ(world.failure(), "");
}

// --- the end of a peer

TEST_P(TransportTest, DestroyedPeerIsLostToAllOthersOnly) {
  MAKE_WORLD(world, 3);
  const bool detects = world.ends[0]->caps().detects_peer_death;
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  for (uint32_t i = 0; i < 30; ++i) {
    for (int src = 0; src < 3; ++src) world.rank(src).Send((src + 1) % 3, {.message = i}, 2 * most);
  }
  // Until rank 0 hears from rank 2, it need not know of it: whoever connects lazily does so then.
  ASSERT_TRUE(world.RunUntil([&] {
    return world.rank(0).received() > 0 && world.rank(1).received() > 0;
  })) << world.failure();
  world.Destroy(2);
  if (!detects) world.rank(1).ForgetQueued();
  const bool known = world.RunUntil([&] {
    const bool told = !world.rank(0).lost().empty() && !world.rank(1).lost().empty();
    return (told || !detects) && world.rank(0).AllSent() && world.rank(1).AllSent();
  });
  EXPECT_TRUE(known) << world.failure() << "; outstanding " << world.rank(0).outstanding() << ", "
                     << world.rank(1).outstanding();
  if (detects) {
    EXPECT_EQ(world.rank(0).lost(), (std::vector<int>{2}));
    EXPECT_EQ(world.rank(1).lost(), (std::vector<int>{2}));
    FrameHeader header = world.rank(0).Header({.message = 99}, 0);
    EXPECT_EQ(world.ends[0]->TrySend(2, header, {}, 0), SendOutcome::kLost);
  }
  world.rank(1).Send(0, {.message = 1000}, 5 * most);
  EXPECT_TRUE(world.RunUntil([&] { return world.rank(0).Received(1, {.message = 1000}); }))
      << world.failure();
  EXPECT_TRUE(world.RunUntil([&] { return world.rank(1).Received(0, {.message = 29}); }));
}

TEST_P(TransportTest, LossOfAQuietPeerIsReported) {
  MAKE_WORLD(world, 3);
  if (!world.ends[0]->caps().detects_peer_death) GTEST_SKIP() << "leaves it to the control plane";
  for (int r = 0; r < 3; ++r) {  // whoever connects lazily does so now
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != r) world.rank(r).Send(peer, {}, 1);
    }
  }
  ASSERT_TRUE(Exchange(&world, {2, 2, 2}));
  world.Settle();
  world.Destroy(1);
  EXPECT_TRUE(world.RunUntil([&] {
    return !world.rank(0).lost().empty() && !world.rank(2).lost().empty();
  })) << world.failure();
  EXPECT_EQ(world.rank(0).lost(), (std::vector<int>{1}));
  EXPECT_EQ(world.rank(2).lost(), (std::vector<int>{1}));
}

TEST_P(TransportTest, EndsBoundedWithEverythingInFlight) {
  const int64_t start_ns = SteadyClock().NowNs();
  for (int round = 0; round < 3; ++round) {
    MAKE_WORLD(world, 3);
    const int64_t most = world.ends[0]->caps().max_fragment_bytes;
    for (int src = 0; src < 3; ++src) {
      for (int dst = 0; dst < 3; ++dst) {
        if (src != dst) world.rank(src).Send(dst, {}, 50 * most);
      }
    }
    for (int i = 0; i < round; ++i) world.Settle(1);
    for (int r = 0; r < 3; ++r) world.Destroy(r);
  }
  EXPECT_LT(SteadyClock().NowNs() - start_ns, 20 * kNsPerSecond);
}

// --- Wait and Wake

TEST_P(TransportTest, WaitOfNoTimeReturns) {
  MAKE_WORLD(world, 2);
  world.Settle();
  for (auto& end : world.ends) {
    EXPECT_TRUE(end->Wait(0).ok());
    EXPECT_TRUE(end->Wait(kNsPerMs).ok());
  }
}

TEST_P(TransportTest, WakeBeforeWaitIsNotLost) {
  MAKE_WORLD(world, 2);
  world.Settle();
  const int64_t start_ns = SteadyClock().NowNs();
  for (uint32_t i = 0; i < 3; ++i) {
    world.ends[0]->Wake();
    if (i == 1) world.rank(0).PollOnly();
    if (i == 2) {
      world.rank(1).Send(0, {.message = i}, 10);
      ASSERT_TRUE(Exchange(&world, {1, 0}));
    }
    // Progress, with nothing or something to report, has not taken it away.
    EXPECT_TRUE(world.ends[0]->Wait(kLongNs).ok());
  }
  EXPECT_LT(SteadyClock().NowNs() - start_ns, kLongNs);
}

// --- many seeds, where a world costs nothing

TEST(TransportSeedsTest, HarmlessFaultsChangeNothing) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(seed);
    const std::string spec = fmt::format(
        "faulty(loopback,seed={},delay={:.3f},delay_polls={},full={:.3f},late_sent={:.3f})", seed,
        random.Unit(), 1 + random.Below(20), 0.9 * random.Unit(), random.Unit());
    auto world = MakeWorld(KindOfSpec("faulty", spec, Place::kOneHost), 3);
    ASSERT_TRUE(world.ok()) << world.status().ToString();
    ASSERT_TRUE(RandomTraffic(world->get(), seed)) << spec;
  }
}

TEST(TransportSeedsTest, SimulatedNetworksKeepThePromises) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(seed, 1);
    const SimOptions options = {.seed = seed,
                                .alpha_ns = static_cast<int64_t>(random.Below(100'000)),
                                .beta_ns_per_byte = random.Unit(),
                                .jitter_ns = static_cast<int64_t>(random.Below(1'000'000)),
                                .reorder = random.Below(2) == 0,
                                .fragment_bytes = static_cast<int32_t>(64 << random.Below(11)),
                                .slots = static_cast<int32_t>(1 + random.Below(8))};
    auto world = MakeWorld(KindOfSim("sim", options), static_cast<int>(2 + random.Below(6)));
    ASSERT_TRUE(world.ok()) << world.status().ToString();
    ASSERT_TRUE(RandomTraffic(world->get(), seed));
  }
}

// A rank dies and a link is cut for a while, at random moments: the survivors are told, get their
// tokens back and everything that they sent each other.
TEST(TransportSeedsTest, SurvivorsOfASimulatedDeathAreServed) {
  constexpr int kRanks = 4;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomStream random(seed, 2);
    auto network = *SimNetwork::Make({.world_size = kRanks, .seed = seed, .jitter_ns = 20'000});
    auto made = MakeWorld(KindOfNetwork("sim", network), kRanks);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    World& world = **made;
    const int dead = static_cast<int>(random.Below(kRanks));
    const int cut = (dead + 1) % kRanks, other = (dead + 2) % kRanks;
    network->KillAt(dead, random.Below(200'000));
    network->CutAt(cut, other, random.Below(100'000));
    network->HealAt(cut, other, 100'000 + random.Below(5'000'000));
    std::vector<std::vector<uint32_t>> sent(kRanks);
    for (uint32_t message = 0; message < 60; ++message) {
      const int src = static_cast<int>(random.Below(kRanks));
      world.rank(src).Send((src + 1 + message % 3) % kRanks, {.message = message},
                           random.Below(100'000));
      sent[src].push_back(message);
    }
    EXPECT_TRUE(world.RunUntil([&] {
      for (int r = 0; r < kRanks; ++r) {
        if (r != dead && (world.rank(r).lost().empty() || !world.rank(r).AllSent())) return false;
      }
      return !network->NextEventNs().has_value();
    })) << world.failure();
    world.Settle();
    EXPECT_EQ(world.failure(), "");
    for (int src = 0; src < kRanks; ++src) {
      for (uint32_t message : sent[src]) {
        const int dst = static_cast<int>((src + 1 + message % 3) % kRanks);
        if (src == dead || dst == dead) continue;
        EXPECT_TRUE(world.rank(dst).Received(src, {.message = message})) << message;
      }
    }
  }
}

// --- the suite itself: transports that break a promise are caught

class BrokenTransportTest : public testing::TestWithParam<const char*> {};

TEST_P(BrokenTransportTest, IsCaught) {
  const TransportKind kind = KindOfSpec("broken", GetParam(), Place::kOneHost);
  auto world = MakeWorld(kind, 2);
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  for (uint32_t i = 0; i < 20; ++i) (*world)->rank(0).Send(1, {.message = i}, 300'000);
  EXPECT_FALSE((*world)->RunUntil([&] { return (*world)->rank(1).received() == 20; }));
  EXPECT_NE((*world)->failure(), "");
}

INSTANTIATE_TEST_SUITE_P(All, BrokenTransportTest,
                         testing::Values("faulty(loopback,duplicate=0.1)",
                                         "faulty(loopback,corrupt_at=30)",
                                         "faulty(loopback,corrupt=0.1,delay=0.1)"));

INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::ValuesIn(TransportKinds()), KindName);

}  // namespace
}  // namespace gradwire::conformance
