// What single ranks send and receive, and in how many rounds, against numbers counted by hand. Sums
// over all ranks and every world size: verify_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule.h"
#include "collectives/verify/world.h"

namespace gradwire {
namespace {

struct Traffic {
  int messages_sent = 0, shards_sent = 0, shards_received = 0, shards_added = 0;
  bool operator==(const Traffic&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Traffic& t) {
  return out << t.messages_sent << " messages with " << t.shards_sent << " shards sent, "
             << t.shards_received << " received, " << t.shards_added << " added";
}

Traffic TrafficOf(const Schedule& schedule) {
  Traffic traffic;
  for (const Step& step : schedule.steps) {
    if (!IsMessage(step.kind)) continue;
    if (step.kind == StepKind::kSend) {
      ++traffic.messages_sent;
      traffic.shards_sent += step.src.count;
      continue;
    }
    traffic.shards_received += step.dst.count;
    if (step.kind == StepKind::kRecvReduce) traffic.shards_added += step.dst.count;
  }
  return traffic;
}

// Those in which somebody sends.
int RoundsOf(const std::vector<Schedule>& schedules) {
  int rounds = 0;
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      if (IsMessage(step.kind)) rounds = std::max(rounds, step.round + 1);
    }
  }
  return rounds;
}

struct Expected {
  int n, rank, rounds;
  Traffic traffic;
};

void ExpectTraffic(Collective collective, std::string_view name, std::vector<Expected> cases) {
  for (const Expected& c : cases) {
    SCOPED_TRACE(std::string(name) + ", rank " + std::to_string(c.rank) + " of " +
                 std::to_string(c.n));
    const std::vector<Schedule> schedules = MakeAll(**FindAlgorithm(collective, name), c.n);
    EXPECT_EQ(RoundsOf(schedules), c.rounds);
    EXPECT_EQ(TrafficOf(schedules[c.rank]), c.traffic);
  }
}

TEST(TrafficTest, HalvingDoubling) {
  // Rank 3 of 4 and rank 4 of 5 send shards on both sides of the end of the array.
  ExpectTraffic(Collective::kAllReduce, "halving_doubling",
                {{.n = 2, .rank = 0, .rounds = 2, .traffic = {2, 2, 2, 1}},
                 {.n = 3, .rank = 0, .rounds = 4, .traffic = {4, 4, 4, 2}},
                 {.n = 4, .rank = 0, .rounds = 4, .traffic = {4, 6, 6, 3}},
                 {.n = 4, .rank = 3, .rounds = 4, .traffic = {5, 6, 6, 3}},
                 {.n = 5, .rank = 0, .rounds = 6, .traffic = {6, 8, 8, 4}},
                 {.n = 5, .rank = 4, .rounds = 6, .traffic = {7, 8, 8, 4}},
                 {.n = 64, .rank = 0, .rounds = 12, .traffic = {12, 126, 126, 63}},
                 {.n = 65, .rank = 0, .rounds = 14, .traffic = {14, 128, 128, 64}}});
}

TEST(TrafficTest, HalvingDoublingSendsTheLeastInTheFewestRoundsFromEveryRank) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "halving_doubling");
  for (int n = 2; n <= 65; ++n) {
    SCOPED_TRACE(std::to_string(n) + " ranks");
    const std::vector<Schedule> schedules = MakeAll(row, n);
    EXPECT_EQ(RoundsOf(schedules), 2 * std::bit_width(static_cast<unsigned>(n - 1)));
    for (const Schedule& schedule : schedules) {
      const Traffic traffic = TrafficOf(schedule);
      EXPECT_EQ(traffic.shards_sent, 2 * (n - 1));
      EXPECT_EQ(traffic.shards_received, 2 * (n - 1));
      EXPECT_EQ(traffic.shards_added, n - 1);
    }
  }
}

TEST(TrafficTest, KnomialAllReduce) {
  // Rank 0 of 65 has 3 children in each of 3 levels and one in the fourth.
  ExpectTraffic(Collective::kAllReduce, "knomial",
                {{.n = 2, .rank = 0, .rounds = 2, .traffic = {1, 1, 1, 1}},
                 {.n = 4, .rank = 0, .rounds = 2, .traffic = {3, 3, 3, 3}},
                 {.n = 4, .rank = 3, .rounds = 2, .traffic = {1, 1, 1, 0}},
                 {.n = 5, .rank = 0, .rounds = 4, .traffic = {4, 4, 4, 4}},
                 {.n = 16, .rank = 4, .rounds = 4, .traffic = {4, 4, 4, 3}},
                 {.n = 65, .rank = 0, .rounds = 8, .traffic = {10, 10, 10, 10}}});
}

TEST(TrafficTest, KnomialReduceAndBroadcast) {
  // One round of bare headers before the data.
  ExpectTraffic(Collective::kReduce, "knomial",
                {{.n = 4, .rank = 0, .rounds = 2, .traffic = {3, 0, 3, 3}},
                 {.n = 16, .rank = 4, .rounds = 3, .traffic = {4, 1, 3, 3}},
                 {.n = 17, .rank = 16, .rounds = 4, .traffic = {1, 1, 0, 0}}});
  ExpectTraffic(Collective::kBroadcast, "knomial",
                {{.n = 4, .rank = 0, .rounds = 2, .traffic = {3, 3, 0, 0}},
                 {.n = 16, .rank = 4, .rounds = 3, .traffic = {4, 3, 1, 0}},
                 {.n = 17, .rank = 16, .rounds = 4, .traffic = {1, 0, 1, 0}}});
}

}  // namespace
}  // namespace gradwire
