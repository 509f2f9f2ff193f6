#include "collectives/schedule_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/verify/world.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

Json Parsed(const JsonValue& json) { return Json::parse(json.dump()); }

TEST(ScheduleToJsonTest, TellsEverythingOnce) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "ring");
  const Json json = Parsed(ScheduleToJson(row.make(1, 2, 0)));
  EXPECT_EQ(json["collective"], "all-reduce");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["logical_shards"], 2);
  EXPECT_EQ(json["hash"].get<std::string>().size(), 16u);
  EXPECT_EQ(json["buffers"].dump(),
            R"([{"role":"input","shards":[0,1]},{"role":"output","shards":[0,1]}])");
  ASSERT_EQ(json["steps"].size(), 4u);
  EXPECT_EQ(json["steps"][0].dump(),
            R"({"kind":"send","round":0,"src":[0,0,1],"peer":0,"message":0,"deps":[]})");
  EXPECT_EQ(json["steps"][1].dump(),
            R"({"kind":"recv-reduce","round":0,"arg":[0,1,1],"dst":[1,1,1],"peer":0,"message":0,)"
            R"("deps":[]})");
}

TEST(MessagesToJsonTest, BytesOfRingShards) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "ring");
  const std::vector<Schedule> schedules = MakeAll(row, 3);
  const Json json =
      Parsed(MessagesToJson(schedules, /*slice=*/5, ShardBytesOf(EvenPartition(10, 3), 4)));
  ASSERT_EQ(json.size(), 12u);
  EXPECT_EQ(json[0].dump(), R"({"src":0,"dst":1,"slice":5,"message":0,"round":0,"bytes":12})");
  int64_t bytes = 0;
  int last_round = 0;
  for (const Json& message : json) {
    bytes += message["bytes"].get<int64_t>();
    EXPECT_GE(message["round"], last_round);
    last_round = message["round"];
  }
  // Every shard twice over two of three edges.
  EXPECT_EQ(bytes, 2 * 2 * 10 * 4);
}

TEST(MessagesToJsonTest, PayloadsHaveTheirOwnSize) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "two_shot", /*encoded=*/true);
  const std::vector<Schedule> schedules = MakeAll(row, 2);
  const ShardBytes bytes =
      ShardBytesOf(EvenPartition(8, 2), 4, [](int64_t elems) { return 100 + elems; });
  const Json json = Parsed(MessagesToJson(schedules, 0, bytes));
  ASSERT_EQ(json.size(), 4u);
  for (const Json& message : json) EXPECT_EQ(message["bytes"], 104);
}

TEST(MessagesToJsonTest, BareHeadersHaveNoBytes) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kBarrier, "dissemination");
  const std::vector<Schedule> schedules = MakeAll(row, 4);
  const Json json = Parsed(MessagesToJson(schedules, 0, ShardBytesOf(EvenPartition(0, 1), 4)));
  ASSERT_EQ(json.size(), 8u);
  for (const Json& message : json) EXPECT_EQ(message["bytes"], 0);
}

}  // namespace
}  // namespace gradwire
