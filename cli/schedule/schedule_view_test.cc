#include "cli/schedule/schedule_view.h"

#include <gtest/gtest.h>

#include <set>

namespace gradwire {
namespace {

std::vector<Schedule> SchedulesOf(std::string_view name, bool encoded, int ranks) {
  const StatusOr<const AlgorithmRow*> row = FindAlgorithm(Collective::kAllReduce, name, encoded);
  EXPECT_TRUE(row.ok()) << row.status().ToString();
  return MakeSchedules(**row, ranks, 0);
}

int64_t SumOfBytes(const std::vector<ScheduledMessage>& messages) {
  int64_t sum = 0;
  for (const ScheduledMessage& m : messages) sum += m.bytes;
  return sum;
}

TEST(ListMessages, TheRingMovesTwiceTheArrayLessOneShardAtEachRank) {
  constexpr int kRanks = 4;
  constexpr int64_t kElems = 1 << 12;
  const auto messages =
      ListMessages(SchedulesOf("ring", false, kRanks), {.elems = kElems, .slice_elems = 1 << 20});
  EXPECT_EQ(SumOfBytes(messages), 2 * (kRanks - 1) * kElems * 4);
  for (const ScheduledMessage& m : messages) EXPECT_EQ(m.dst, (m.src + 1) % kRanks);
}

TEST(ListMessages, SlicesCarryTheWholeArrayOnce) {
  constexpr int64_t kElems = 10'000;
  const auto schedules = SchedulesOf("ring", false, 3);
  const auto whole = ListMessages(schedules, {.elems = kElems, .slice_elems = 1 << 20});
  const auto sliced = ListMessages(schedules, {.elems = kElems, .slice_elems = 1024});
  EXPECT_EQ(SumOfBytes(sliced), SumOfBytes(whole));
  EXPECT_EQ(sliced.back().slice, (kElems - 1) / 1024);
}

TEST(EstimateMessages, IsAtLeastWhatIsListed) {
  for (const AlgorithmRow& row : Algorithms()) {
    RunShape shape = {.elems = 100'000, .slice_elems = 4096};
    if (row.encoded) shape.codec = *MakeCodec("qsgd(bits=4)");
    const auto listed = ListMessages(MakeSchedules(row, 5, 0), shape).size();
    const double estimated = EstimateMessages(row, 5, shape);
    EXPECT_GE(estimated, static_cast<double>(listed)) << row.name;
    EXPECT_LE(estimated, 2.2 * static_cast<double>(listed)) << row.name;
  }
}

TEST(EstimateMessages, IsAtLeastWhatIsListedOfCarriers) {
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      RunShape shape = {.elems = 100'000, .slice_elems = 1024, .matrix = {250, 400}};
      shape.codec = *MakeCodec(spec);
      if (shape.encoded() || shape.codec->carrier->SizesDependOnData()) continue;
      const bool gathers = shape.codec->carrier->Gathers();
      const AlgorithmRow& ring =
          **FindAlgorithm(gathers ? Collective::kAllGather : Collective::kAllReduce, "ring");
      const auto listed = ListMessages(MakeSchedules(ring, 3, 0), shape);
      const double estimated = EstimateMessages(ring, 3, shape);
      EXPECT_GT(SumOfBytes(listed), 0) << spec;
      EXPECT_GE(estimated, static_cast<double>(listed.size())) << spec;
    }
  }
}

// One after the other: the scales of a slice, then its levels.
TEST(ListMessages, RoundsOfACarrierAreRunsOfItsSlices) {
  RunShape shape = {.elems = 4096, .slice_elems = 2048};
  shape.codec = *MakeCodec("qsgd(bits=8,sum=carrier)");
  const auto messages = ListMessages(SchedulesOf("direct", false, 2), shape);
  std::vector<std::pair<int64_t, int>> runs;
  for (const ScheduledMessage& m : messages) {
    const std::pair<int64_t, int> run = {m.slice, m.run};
    if (runs.empty() || runs.back() != run) runs.push_back(run);
  }
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, int>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(ListMessages, KeysAreUniqueAndInOrder) {
  const auto messages =
      ListMessages(SchedulesOf("tree", false, 5), {.elems = 100'000, .slice_elems = 1 << 14});
  std::set<std::array<int64_t, 4>> keys;
  for (const ScheduledMessage& m : messages) keys.insert({m.src, m.dst, m.slice, m.message});
  EXPECT_EQ(keys.size(), messages.size());
  for (size_t i = 1; i < messages.size(); ++i) {
    EXPECT_LE(std::tie(messages[i - 1].slice, messages[i - 1].round),
              std::tie(messages[i].slice, messages[i].round));
  }
}

TEST(ListMessages, EncodedBytesAreThoseOfTheCodec) {
  constexpr int kRanks = 4;
  constexpr int64_t kElems = 1 << 16;
  const StatusOr<Codec> codec = MakeCodec("bf16");
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  const auto messages = ListMessages(SchedulesOf("two_shot", true, kRanks),
                                     {.elems = kElems, .slice_elems = 1 << 20, .codec = *codec});
  EXPECT_EQ(SumOfBytes(messages), 2 * (kRanks - 1) * kElems * 2);
}

TEST(ListMessages, NothingToSendIsStillAHeader) {
  const auto messages =
      ListMessages(SchedulesOf("ring", false, 2), {.elems = 0, .slice_elems = 1 << 20});
  EXPECT_FALSE(messages.empty());
  EXPECT_EQ(SumOfBytes(messages), 0);
}

TEST(ScheduleTable, HasALineForEachStep) {
  const Schedule schedule = SchedulesOf("ring", false, 4)[1];
  const std::string table = ScheduleTable(schedule);
  EXPECT_EQ(static_cast<size_t>(std::count(table.begin(), table.end(), '\n')),
            schedule.steps.size() + 1);
  EXPECT_NE(table.find("recv-reduce"), std::string::npos);
}

TEST(MessagesJson, HasTheKeysOfARecord) {
  const ScheduledMessage message = {
      .src = 1, .dst = 2, .slice = 3, .run = 7, .message = 4, .round = 5, .bytes = 6};
  EXPECT_EQ(MessagesJson({&message, 1}).dump(),
            R"([{"src":1,"dst":2,"slice":3,"run":7,"message":4,"round":5,"bytes":6}])");
}

}  // namespace
}  // namespace gradwire
