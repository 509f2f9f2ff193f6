#include "transports/control/sim_control.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace gradwire {
namespace {

struct Recorder : ControlSink {
  void OnControl(const ControlMessage& message) override { messages.push_back(message); }
  void OnRankLost(int rank, const Status& cause) override {
    lost.push_back(rank);
    causes.push_back(cause.ToString());
    peers.push_back(cause.detail().peer);
  }
  template <typename T>
  int Count() const {
    int n = 0;
    for (const ControlMessage& m : messages) n += m.get<T>() != nullptr;
    return n;
  }
  std::vector<ControlMessage> messages;
  std::vector<int> lost, peers;
  std::vector<std::string> causes;
};

struct World {
  explicit World(SimControlOptions options)
      : sim(options, &clock), sinks(options.world_size), options(options) {}

  // Runs until `until_ns` of virtual time.
  void RunUntil(int64_t until_ns) {
    while (sim.NextNs() <= until_ns) {
      clock.Set(std::max(clock.NowNs(), sim.NextNs()));
      for (int r = 0; r < options.world_size; ++r) sim.channel(r)->Poll(&sinks[r]);
    }
    clock.Set(until_ns);
  }
  void RunFor(int64_t ns) { RunUntil(clock.NowNs() + ns); }

  ManualClock clock;
  SimControl sim;
  std::vector<Recorder> sinks;
  SimControlOptions options;
};

constexpr int64_t kBound = 10 * kNsPerSecond;

TEST(ControlNode, RelaysThroughRankZeroInOrder) {
  World w({.world_size = 4, .seed = 1});
  for (uint64_t step = 0; step < 50; ++step) {
    ASSERT_TRUE(w.sim.channel(2)->SendTo(3, {.fields = VoteFields{.step = step}}).ok());
    ASSERT_TRUE(w.sim.channel(2)->Broadcast({.fields = ResultFields{.step = step}}).ok());
  }
  w.RunFor(kNsPerSecond);
  EXPECT_EQ(w.sinks[3].Count<VoteFields>(), 50);
  EXPECT_EQ(w.sinks[0].Count<VoteFields>(), 0);
  for (const int r : {0, 1, 3}) {
    uint64_t next = 0;
    for (const ControlMessage& m : w.sinks[r].messages) {
      if (!m.get<ResultFields>()) continue;
      EXPECT_EQ(m.get<ResultFields>()->step, next++);
      EXPECT_EQ(m.src, 2);
    }
    EXPECT_EQ(next, 50u) << "rank " << r;
  }
  EXPECT_EQ(w.sinks[2].Count<ResultFields>(), 0) << "not to the sender";
}

TEST(ControlNode, RefusesWrongArgumentsWithoutEffect) {
  World w({.world_size = 3});
  ControlChannel* c = w.sim.channel(1);
  EXPECT_EQ(c->SendTo(1, {.fields = VoteFields{}}).code(), gwInvalidArgument);
  EXPECT_EQ(c->SendTo(3, {.fields = VoteFields{}}).code(), gwInvalidArgument);
  EXPECT_EQ(c->SendTo(-1, {.fields = VoteFields{}}).code(), gwInvalidArgument);
  ControlMessage big{.fields = VoteFields{}, .body = std::string(kMaxControlBodyBytes + 1, 'x')};
  EXPECT_EQ(c->Broadcast(big).code(), gwInvalidArgument);
  w.RunFor(kNsPerSecond);
  EXPECT_EQ(w.sinks[0].Count<VoteFields>(), 0);
}

TEST(ControlNode, HeartbeatsCarryProgressAndNobodyIsLostWhileAllLive) {
  World w({.world_size = 5, .seed = 3});
  w.sim.channel(2)->SetProgress(
      {.turn = 7, .counters = {.slices_done = 9, .submitted = 4, .op_seq = 3}});
  w.RunFor(100 * kNsPerSecond);
  for (const Recorder& s : w.sinks) EXPECT_TRUE(s.lost.empty());
  const ControlMessage* last = nullptr;
  for (const ControlMessage& m : w.sinks[0].messages) {
    if (m.src == 2) last = &m;
  }
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->turn, 7);
  EXPECT_EQ(*last->get<HeartbeatFields>(),
            (HeartbeatFields{.slices_done = 9, .submitted = 4, .op_seq = 3}));
}

TEST(ControlNode, EverySurvivorNamesTheKilledRankAtOnce) {
  for (int victim = 0; victim < 5; ++victim) {
    World w({.world_size = 5, .seed = 4});
    w.RunFor(3 * kNsPerSecond);
    w.sim.Kill(victim);
    w.RunFor(kNsPerMs);
    for (int r = 0; r < 5; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(w.sinks[r].lost, std::vector<int>{victim}) << "rank " << r;
      EXPECT_EQ(w.sinks[r].peers, std::vector<int>{victim});
    }
  }
}

TEST(ControlNode, StoppedRankIsNamedWithinTheBoundAndLearnsOfIt) {
  for (int victim = 0; victim < 4; ++victim) {
    World w({.world_size = 4, .seed = 5});
    w.RunFor(3 * kNsPerSecond);
    w.sim.Stop(victim);
    w.RunFor(kBound + kNsPerSecond);
    for (int r = 0; r < 4; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(w.sinks[r].lost, std::vector<int>{victim}) << "rank " << r;
      EXPECT_NE(w.sinks[r].causes[0].find("silent for"), std::string::npos) << w.sinks[r].causes[0];
    }
    if (victim == 0) continue;  // nobody left that could tell the hub
    w.sim.Continue(victim);
    w.RunFor(kNsPerSecond);
    EXPECT_EQ(w.sinks[victim].lost, std::vector<int>{victim});
  }
}

TEST(ControlNode, WholeJobStoppedAndContinuedLosesNobody) {
  World w({.world_size = 4, .seed = 6});
  w.RunFor(3 * kNsPerSecond);
  for (int r = 0; r < 4; ++r) w.sim.Stop(r);
  w.RunFor(1000 * kNsPerSecond);
  for (int r = 0; r < 4; ++r) w.sim.Continue(r);
  w.RunFor(100 * kNsPerSecond);
  for (const Recorder& s : w.sinks) EXPECT_TRUE(s.lost.empty());
}

TEST(ControlNode, SlowRankIsNotEvicted) {
  World w({.world_size = 3, .seed = 7});
  w.RunFor(3 * kNsPerSecond);
  w.sim.Stop(1);
  w.RunFor(7 * kNsPerSecond);
  w.sim.Continue(1);
  w.RunFor(60 * kNsPerSecond);
  for (const Recorder& s : w.sinks) EXPECT_TRUE(s.lost.empty());
}

TEST(ControlNode, ByeIsNotDeath) {
  World w({.world_size = 4, .seed = 8});
  w.sim.SayBye(2, Status::Ok());
  w.RunFor(kNsPerSecond);
  ASSERT_TRUE(w.sim.MayLeave(2));
  w.sim.Kill(2);
  w.RunFor(60 * kNsPerSecond);
  for (const int r : {0, 1, 3}) {
    EXPECT_TRUE(w.sinks[r].lost.empty());
    EXPECT_EQ(w.sinks[r].Count<ByeFields>(), 1) << "rank " << r;
  }
  // The hub leaves last.
  w.sim.SayBye(0, Status::Ok());
  w.RunFor(kNsPerSecond);
  EXPECT_FALSE(w.sim.MayLeave(0));
  w.sim.SayBye(1, Status::Ok());
  w.sim.SayBye(3, Status::Ok());
  w.RunFor(kNsPerSecond);
  EXPECT_TRUE(w.sim.MayLeave(0));
  EXPECT_TRUE(w.sim.MayLeave(1));
}

TEST(ControlNode, AHubThatWantsToLeaveStillServesWhoStays) {
  World w({.world_size = 4, .seed = 8});
  w.sim.SayBye(0, Status::Ok());
  w.RunFor(6 * kBound);
  EXPECT_FALSE(w.sim.MayLeave(0));
  for (const Recorder& s : w.sinks) EXPECT_TRUE(s.lost.empty());
  ASSERT_TRUE(w.sim.channel(1)->SendTo(0, {.fields = VoteFields{}}).ok());
  w.RunFor(kNsPerSecond);
  EXPECT_EQ(w.sinks[0].Count<VoteFields>(), 1);
  w.sim.Stop(2);
  w.RunFor(2 * kBound);
  for (const int r : {1, 3}) EXPECT_EQ(w.sinks[r].lost, std::vector<int>{2}) << "rank " << r;
}

TEST(ControlNode, LeavingWithAReasonIsDeathByThatReason) {
  for (const int victim : {0, 2}) {
    World w({.world_size = 4, .seed = 9});
    w.sim.SayBye(victim, Status(gwSystemError, "out of memory"));
    w.RunFor(kNsPerSecond);
    for (int r = 0; r < 4; ++r) {
      if (r == victim) continue;
      ASSERT_EQ(w.sinks[r].lost, std::vector<int>{victim}) << "rank " << r;
      EXPECT_NE(w.sinks[r].causes[0].find("out of memory"), std::string::npos);
    }
  }
}

TEST(ControlNode, RevokeByAnyRankCondemnsTheCulpritEverywhere) {
  for (const int accuser : {0, 1, 3}) {
    World w({.world_size = 4, .seed = 10});
    const RevokeFields fields{.op_seq = 5, .culprit = 2, .scope = RevokeScope::kEpoch, .step = 6};
    const Status cause(gwDataCorrupt, "three bad frames");
    ASSERT_TRUE(
        w.sim.channel(accuser)->Broadcast({.fields = fields, .body = EncodeStatus(cause)}).ok());
    w.RunFor(kNsPerSecond);
    for (int r = 0; r < 4; ++r) {
      ASSERT_EQ(w.sinks[r].lost, std::vector<int>{2}) << "accuser " << accuser << " rank " << r;
      EXPECT_NE(w.sinks[r].causes[0].find("three bad frames"), std::string::npos);
      EXPECT_EQ(w.sinks[r].Count<RevokeFields>(), 1);
    }
  }
}

// Both ends of a broken link tell rank 0 at once.
TEST(ControlNode, OfTwoThatAccuseEachOtherOneIsCondemned) {
  World w({.world_size = 4, .seed = 12});
  for (const uint16_t accuser : {1, 2}) {
    const RevokeFields fields{.culprit = static_cast<uint16_t>(3 - accuser),
                              .scope = RevokeScope::kEpoch};
    const Status cause(gwPeerLost, "connection reset");
    ASSERT_TRUE(
        w.sim.channel(accuser)->Broadcast({.fields = fields, .body = EncodeStatus(cause)}).ok());
  }
  w.RunFor(kNsPerSecond);
  for (const int r : {0, 3}) EXPECT_EQ(w.sinks[r].lost.size(), 1u) << "rank " << r;
  EXPECT_EQ(w.sinks[0].lost, w.sinks[3].lost);
}

TEST(ControlNode, StepRevokeLosesNobody) {
  World w({.world_size = 3, .seed = 11});
  const RevokeFields fields{.culprit = 1, .scope = RevokeScope::kStep};
  ASSERT_TRUE(w.sim.channel(2)->Broadcast({.turn = 9, .fields = fields}).ok());
  w.RunFor(kNsPerSecond);
  for (const int r : {0, 1}) {
    EXPECT_TRUE(w.sinks[r].lost.empty());
    ASSERT_EQ(w.sinks[r].Count<RevokeFields>(), 1);
  }
}

// Ranks die at random, also in the middle of broadcasts. Whatever happens: survivors name only dead
// ranks, each once, and while rank 0 lives all of them name the same, in the same order.
TEST(ControlNode, SurvivorsAgreeUnderSeededDeaths) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World w(
        {.world_size = 2 + static_cast<int>(seed % 7), .seed = seed, .deaths_per_message = 0.01});
    for (int round = 0; round < 10; ++round) {
      for (int r = 0; r < w.options.world_size; ++r) {
        ASSERT_TRUE(w.sim.channel(r)->Broadcast({.fields = VoteFields{}}).ok());
      }
      w.RunFor(3 * kNsPerSecond);
    }
    w.RunFor(kBound * 2);
    const bool hub_lives = w.sim.alive(0);
    for (int r = 0; r < w.options.world_size; ++r) {
      if (!w.sim.alive(r)) continue;
      const std::vector<int>& lost = w.sinks[r].lost;
      EXPECT_EQ(std::set<int>(lost.begin(), lost.end()).size(), lost.size());
      for (const int dead : lost) EXPECT_FALSE(w.sim.alive(dead)) << dead;
      if (hub_lives) {
        EXPECT_EQ(lost, w.sinks[0].lost) << "rank " << r;
      } else {
        EXPECT_EQ(lost.back(), 0) << "rank " << r;
      }
    }
  }
}

TEST(SimControl, SameSeedSameRun) {
  auto run = [](uint64_t seed) {
    World w({.world_size = 5, .seed = seed, .deaths_per_message = 0.02});
    w.RunFor(60 * kNsPerSecond);
    std::string log;
    for (const Recorder& s : w.sinks) {
      for (const std::string& c : s.causes) log += c + "\n";
      log += std::to_string(s.messages.size()) + "\n";
    }
    return log;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace gradwire
