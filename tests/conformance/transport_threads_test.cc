// The transport contract, part two: each rank in a thread of its own, asleep whenever it has
// nothing to do.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/conformance/transport_fixture.h"

namespace gradwire::conformance {
namespace {

class TransportThreadsTest : public TransportTest {
 protected:
  void SetUp() override {
    if (!GetParam().threads) GTEST_SKIP() << "all ranks of this transport share one thread";
  }
};

TEST_P(TransportThreadsTest, WakeEndsAWait) {
  MAKE_WORLD(world, 2);
  world.Settle();
  for (int i = 0; i < 20; ++i) {
    const int64_t start_ns = SteadyClock().NowNs();
    std::thread waker([&] { world.ends[0]->Wake(); });
    EXPECT_TRUE(world.ends[0]->Wait(kLongNs).ok());
    waker.join();
    EXPECT_LT(SteadyClock().NowNs() - start_ns, kLongNs);
    (void)world.ends[0]->Wait(
        0);  // the Wait may have ended for another reason: takes a Wake that is left
  }
}

TEST_P(TransportThreadsTest, LossEndsAWait) {
  MAKE_WORLD(world, 2);
  if (!world.ends[0]->caps().detects_peer_death) GTEST_SKIP() << "leaves it to the control plane";
  world.rank(0).Send(1, {}, 1);
  world.rank(1).Send(0, {}, 1);
  ASSERT_TRUE(Exchange(&world, {1, 1}));
  world.Settle();
  const int64_t start_ns = SteadyClock().NowNs();
  std::thread sleeper([&] {
    while (world.rank(0).lost().empty() && SteadyClock().NowNs() - start_ns < kLongNs) {
      if (world.rank(0).PollOnly()) continue;
      EXPECT_TRUE(world.ends[0]->Wait(kLongNs).ok());
    }
  });
  world.Destroy(1);
  sleeper.join();
  EXPECT_EQ(world.rank(0).lost(), (std::vector<int>{1}));
  EXPECT_LT(SteadyClock().NowNs() - start_ns, kLongNs);
}

// Each rank in a thread of its own that sleeps whenever it has nothing to do: every arrival, every
// freed slot and every token must end the sleep.
void LiveInThreads(World* world, const std::vector<int64_t>& messages) {
  std::atomic<int> busy_ranks = world->size();
  const auto live = [&](int r) {
    Rank& rank = world->rank(r);
    bool counted = false;
    while (busy_ranks.load() > 0 && rank.failure().empty()) {
      const bool busy = rank.Poll();
      if (!counted && rank.AllSent() && rank.received() >= messages[r]) {
        counted = true;
        // The others may sleep for good: nothing else happens.
        if (--busy_ranks == 0) {
          for (auto& end : world->ends) end->Wake();
        }
      }
      if (!busy && busy_ranks.load() > 0) {
        ASSERT_TRUE(rank.transport()->Wait(kLongNs).ok());
      }
    }
    // A failed rank must not leave the others asleep.
    if (!rank.failure().empty()) busy_ranks = 0;
    for (auto& end : world->ends) end->Wake();
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < world->size(); ++r) threads.emplace_back(live, r);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportThreadsTest, SleepersAreWokenByWhatConcernsThem) {
  constexpr int kRanks = 3;
  constexpr uint32_t kMessages = 40;
  MAKE_WORLD(world, kRanks);
  const int64_t most = world.ends[0]->caps().max_fragment_bytes;
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (int src = 0; src < kRanks; ++src) {
      for (int dst = 0; dst < kRanks; ++dst) {
        if (src != dst) world.rank(src).Send(dst, {.message = i}, i % 4 == 0 ? 2 * most + 8 : 8);
      }
    }
  }
  const int64_t start_ns = SteadyClock().NowNs();
  LiveInThreads(&world, std::vector<int64_t>(kRanks, kMessages * (kRanks - 1)));
  EXPECT_LT(SteadyClock().NowNs() - start_ns, kLongNs) << "a wake-up was lost";
  EXPECT_EQ(world.failure(), "");
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(world.rank(r).received(), kMessages * (kRanks - 1));
    EXPECT_TRUE(world.rank(r).AllSent());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransportThreadsTest, testing::ValuesIn(TransportKinds()), KindName);

}  // namespace
}  // namespace gradwire::conformance
