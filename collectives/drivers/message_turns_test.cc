// Runs and messages to one peer share the room that the transport has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/drivers/driver_ends.h"
#include "collectives/drivers/point_to_point.h"
#include "tests/lib/recording_sink.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

constexpr int64_t kFragmentBytes = 64, kFragments = 100;
constexpr int64_t kElems = kFragments * kFragmentBytes / static_cast<int64_t>(sizeof(int64_t));
constexpr int kMessages = 16;

// Rank 0 of 2 with a broadcast of many fragments and many words to say. Whether what arrives at
// rank 1 is a message, in its order.
std::vector<bool> AreMessages(int slots) {
  const auto hub =
      *MakeLoopbackHub({.world_size = 2, .fragment_bytes = kFragmentBytes, .slots = slots});
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < 2; ++rank) ends.push_back(std::move(*MakeLoopbackEnd(hub, rank)));
  EXPECT_TRUE(ConnectEnds(ends).ok());
  PointToPoint messages(ends[0].get(), &SteadyClock(),
                        {.world_size = 2, .job = kJob, .max_message_bytes = kMaxMessageBytes});
  EventDriver driver(ends[0].get(), {.world_size = 2,
                                     .job = kJob,
                                     .max_message_bytes = kMaxMessageBytes,
                                     .point_to_point = &messages});
  const PreparedSchedule schedule(Row(Collective::kBroadcast, "tree").make(0, 2, 0));
  ReferenceWork work(&schedule.schedule,
                     {.partition = EvenPartition(kElems, schedule.schedule.logical_shards),
                      .dtype = DType::kInt64});
  std::byte memory{};
  for (int i = 0; i < kMessages; ++i) {
    auto receive = std::make_shared<Transfer>();
    receive->kind = Transfer::Kind::kRecv;
    receive->peer = 1;
    receive->memory = &memory;
    receive->count = 1;
    messages.Post(std::move(receive));  // which rank 1 is told
  }
  driver.Start({.schedule = &schedule, .work = &work, .signature = kSignature});
  RecordingSink heard;
  for (bool moved = true; moved;) {
    moved = driver.Poll();
    moved |= messages.Poll();
    moved |= ends[1]->Progress(&heard) > 0;
  }
  messages.FailAll(Status(gwRevoked, "the test is over"));
  std::vector<bool> are_messages;
  for (const Arrival& arrival : heard.arrivals)
    are_messages.push_back((arrival.header.flags & kFramePointToPoint) != 0);
  return are_messages;
}

class MessageTurns : public testing::TestWithParam<int> {};

TEST_P(MessageTurns, RunsAndMessagesGoByTurnsWhileBothFillTheTransport) {
  const std::vector<bool> arrived = AreMessages(GetParam());
  ASSERT_EQ(std::ranges::count(arrived, true), kMessages);
  ASSERT_EQ(std::ranges::count(arrived, false), kFragments);
  const auto last_of_run = std::find(arrived.rbegin(), arrived.rend(), false).base();
  int since_message = 0, longest = 0;
  for (auto it = arrived.begin(); it != last_of_run; ++it) {
    EXPECT_FALSE(*it && since_message == 0) << "messages keep the run out";
    since_message = *it ? 0 : since_message + 1;
    if (std::find(it, arrived.end(), true) != arrived.end())
      longest = std::max(longest, since_message);
  }
  EXPECT_LE(longest, GetParam()) << "the run keeps messages out";
}

INSTANTIATE_TEST_SUITE_P(Slots, MessageTurns, testing::Values(1, 2, 4),
                         [](const auto& slots) { return std::to_string(slots.param); });

}  // namespace
}  // namespace gradwire
