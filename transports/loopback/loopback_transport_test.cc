// What is particular to loopback; what every transport must do is in tests/conformance.
#include "transports/loopback/loopback_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/lib/recording_sink.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

using Ends = std::vector<std::unique_ptr<Transport>>;

Ends Connected(const LoopbackShape& shape) {
  auto hub = MakeLoopbackHub(shape);
  EXPECT_TRUE(hub.ok());
  Ends ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < shape.world_size; ++rank) {
    ends.push_back(std::move(*MakeLoopbackEnd(*hub, rank)));
    addresses.push_back(ends.back()->address());
  }
  for (auto& end : ends) EXPECT_TRUE(end->Connect(addresses).ok());
  return ends;
}

ConstBytes Text(const char* text) {
  return {reinterpret_cast<const std::byte*>(text), static_cast<int64_t>(std::strlen(text))};
}

TEST(LoopbackTransportTest, QueueOfAPairIsBounded) {
  Ends ends = Connected({.world_size = 3, .fragment_bytes = 64, .slots = 2});
  EXPECT_EQ(ends[0]->TrySend(1, {.message = 1}, Text("a"), 11), SendOutcome::kAccepted);
  EXPECT_EQ(ends[0]->TrySend(1, {.message = 2}, Text("b"), 12), SendOutcome::kAccepted);
  EXPECT_EQ(ends[0]->TrySend(1, {.message = 3}, Text("c"), 13), SendOutcome::kFull);
  EXPECT_EQ(ends[0]->TrySend(2, {.message = 3}, Text("c"), 14), SendOutcome::kAccepted);
  RecordingSink sender, receiver;
  EXPECT_EQ(ends[0]->Progress(&sender), 3);
  EXPECT_EQ(sender.sent, (std::vector<SendToken>{11, 12, 14}));
  EXPECT_EQ(ends[0]->TrySend(1, {.message = 3}, Text("c"), 15), SendOutcome::kFull);

  EXPECT_EQ(ends[1]->Progress(&receiver), 2);
  EXPECT_EQ(receiver.texts(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ends[0]->TrySend(1, {.message = 3}, Text("c"), 16), SendOutcome::kAccepted);
}

TEST(LoopbackTransportTest, LostPeerIsReportedAfterWhatItSent) {
  Ends ends = Connected({.world_size = 2});
  EXPECT_EQ(ends[1]->TrySend(0, {.message = 7}, Text("last words"), 1), SendOutcome::kAccepted);
  ends[1].reset();
  RecordingSink sink;
  EXPECT_EQ(ends[0]->Progress(&sink), 2);
  EXPECT_EQ(sink.texts(), (std::vector<std::string>{"last words"}));
  EXPECT_EQ(sink.lost, (std::vector<int>{1}));
  EXPECT_EQ(ends[0]->Progress(&sink), 0);
  EXPECT_EQ(ends[0]->TrySend(1, {}, {}, 2), SendOutcome::kLost);
}

TEST(LoopbackTransportTest, EndsMeetByJobAndWorldSize) {
  TransportOptions options = {.rank = 0, .world_size = 2, .job = 77};
  auto first = MakeLoopbackTransport(options);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(MakeLoopbackTransport(options).status().code(), gwInvalidUsage);
  options.rank = 1;
  auto second = MakeLoopbackTransport(options);
  options.world_size = 3;
  auto stranger = MakeLoopbackTransport(options);
  ASSERT_TRUE(second.ok() && stranger.ok());

  const std::vector<std::string> good = {(*first)->address(), (*second)->address()};
  const std::vector<std::string> mixed = {(*first)->address(), (*stranger)->address()};
  const Status apart = (*first)->Connect(mixed);
  EXPECT_EQ(apart.code(), gwTransportUnavailable);
  EXPECT_THAT(apart.ToString(),
              HasSubstr("threads of one process, and rank 1 is no thread of rank 0's process"));
  EXPECT_THAT(apart.ToString(), HasSubstr("transport=auto, or shm on one host"));
  EXPECT_TRUE((*first)->Connect(good).ok());
  EXPECT_EQ((*stranger)->Connect(good).code(), gwTransportUnavailable);
}

TEST(LoopbackTransportTest, HubEndsWithItsLastRank) {
  const TransportOptions options = {.rank = 0, .world_size = 1, .job = 78};
  { ASSERT_TRUE(MakeLoopbackTransport(options).ok()); }
  EXPECT_TRUE(MakeLoopbackTransport(options).ok());
}

TEST(LoopbackTransportTest, RefusesImpossibleShapes) {
  EXPECT_EQ(MakeLoopbackHub({.world_size = 0}).status().code(), gwInvalidArgument);
  EXPECT_EQ(MakeLoopbackHub({.fragment_bytes = 100}).status().code(), gwInvalidArgument);
  EXPECT_EQ(MakeLoopbackHub({.fragment_bytes = 2 << 20}).status().code(), gwInvalidArgument);
  EXPECT_EQ(MakeLoopbackHub({.slots = 0}).status().code(), gwInvalidArgument);
  auto hub = MakeLoopbackHub({.world_size = 2});
  ASSERT_TRUE(hub.ok());
  EXPECT_EQ(MakeLoopbackEnd(*hub, 2).status().code(), gwInvalidArgument);
  EXPECT_EQ(MakeLoopbackEnd(*hub, -1).status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
