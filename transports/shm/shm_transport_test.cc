#include "transports/shm/shm_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/lib/recording_sink.h"
#include "transports/shm/shm_memory.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int64_t kLongNs = 20 * kNsPerSecond;
constexpr int kSlots = 4;

struct Pair {
  explicit Pair(int32_t fragment_bytes = 4096) {
    for (int rank = 0; rank < 2; ++rank) {
      auto made = MakeShmTransport(
          {.rank = rank, .world_size = 2, .job = 1, .fragment_bytes = fragment_bytes});
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      ends.push_back(std::move(*made));
    }
    const std::vector<std::string> addresses = {ends[0]->address(), ends[1]->address()};
    for (auto& end : ends) EXPECT_TRUE(end->Connect(addresses).ok());
  }
  SendOutcome Send(uint32_t message, int64_t bytes = 64) {
    data.resize(bytes);
    return ends[0]->TrySend(1, {.message = message}, {data.data(), bytes}, message);
  }
  std::vector<std::byte> data;
  std::vector<std::unique_ptr<Transport>> ends;
};

// The end has slept until the time was over.
void ExpectSleep(Transport* end) {
  constexpr int64_t kShortNs = 30 * kNsPerMs;
  const int64_t begin_ns = SteadyClock().NowNs();
  EXPECT_TRUE(end->Wait(kShortNs).ok());
  EXPECT_GE(SteadyClock().NowNs() - begin_ns, kShortNs);
}

// The end was woken, and has not slept until the time was over.
void ExpectWoken(Transport* end) {
  const int64_t begin_ns = SteadyClock().NowNs();
  EXPECT_TRUE(end->Wait(kLongNs).ok());
  EXPECT_LT(SteadyClock().NowNs() - begin_ns, kLongNs);
}

// Returns when the thread sleeps: what comes before it does it would see without being woken.
void AwaitSleep(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  for (char state = 0; state != 'S'; std::this_thread::yield()) {
    std::string stat;  // "NUMBER (NAME) STATE ..."
    std::getline(std::ifstream(path), stat);
    const size_t name_end = stat.rfind(") ");
    ASSERT_LT(name_end + 2, stat.size()) << stat;
    state = stat[name_end + 2];
  }
}

TEST(ShmTransportTest, AFullQueueTakesMoreOnceTheReceiverHasLooked) {
  Pair pair;
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(pair.Send(i), SendOutcome::kAccepted);
  EXPECT_EQ(pair.Send(kSlots), SendOutcome::kFull);
  RecordingSink sink;
  pair.ends[1]->Progress(&sink);
  EXPECT_EQ(sink.messages(), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(pair.Send(kSlots), SendOutcome::kAccepted);
}

TEST(ShmTransportTest, ASenderWithoutRoomSleepsUntilThereIsSome) {
  Pair pair;
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(pair.Send(i), SendOutcome::kAccepted);
  RecordingSink sender, receiver;
  pair.ends[0]->Progress(&sender);
  ASSERT_EQ(pair.Send(kSlots), SendOutcome::kFull);
  std::thread other([&, sleeper = gettid()] {
    AwaitSleep(sleeper);
    pair.ends[1]->Progress(&receiver);
  });
  ExpectWoken(pair.ends[0].get());
  other.join();
  EXPECT_EQ(pair.Send(kSlots), SendOutcome::kAccepted);
}

// Who gives up what was refused does not send it again.
TEST(ShmTransportTest, ASenderThatGaveUpSleepsOnceItWasToldOfRoom) {
  Pair pair;
  RecordingSink sender, receiver;
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(pair.Send(i), SendOutcome::kAccepted);
  ASSERT_EQ(pair.Send(kSlots), SendOutcome::kFull);
  pair.ends[0]->Progress(&sender);  // its tokens are news
  pair.ends[1]->Progress(&receiver);
  ExpectWoken(pair.ends[0].get());
  ExpectSleep(pair.ends[0].get());
}

TEST(ShmTransportTest, AReceiverSleepsUntilSomethingComes) {
  Pair pair;
  std::thread other([&, sleeper = gettid()] {
    AwaitSleep(sleeper);
    EXPECT_EQ(pair.Send(7), SendOutcome::kAccepted);
  });
  ExpectWoken(pair.ends[1].get());
  other.join();
  RecordingSink sink;
  pair.ends[1]->Progress(&sink);
  EXPECT_EQ(sink.messages(), std::vector<uint32_t>{7});
}

TEST(ShmTransportTest, WhatWasSentArrivesBeforeTheLoss) {
  Pair pair;
  ASSERT_EQ(pair.Send(1), SendOutcome::kAccepted);
  pair.ends[0].reset();
  RecordingSink sink;
  for (int i = 0; i < 3; ++i) pair.ends[1]->Progress(&sink);
  EXPECT_EQ(sink.messages(), std::vector<uint32_t>{1});
  EXPECT_EQ(sink.lost, std::vector<int>{0});
  EXPECT_EQ(pair.ends[1]->TrySend(0, {}, {}, 1), SendOutcome::kLost);
}

TEST(ShmTransportTest, DamagedMemoryIsNotReadBeyondItsEnd) {
  Pair pair;
  ASSERT_EQ(pair.Send(1), SendOutcome::kAccepted);
  StatusOr<ShmAddress> address = DecodeShmAddress(pair.ends[1]->address());
  ASSERT_TRUE(address.ok());
  StatusOr<ShmInbox> inbox = ShmInbox::Open(*address);
  ASSERT_TRUE(inbox.ok());
  inbox->slot(0, 0).bytes = int64_t{1} << 40;
  RecordingSink sink;
  sink.code_of_loss = gwDataCorrupt;
  pair.ends[1]->Progress(&sink);
  EXPECT_TRUE(sink.arrivals.empty());
  EXPECT_EQ(sink.lost, std::vector<int>{0});
  EXPECT_THAT(sink.why, HasSubstr("damaged"));
  EXPECT_EQ(pair.ends[1]->TrySend(0, {}, {}, 1), SendOutcome::kLost);
}

TEST(ShmTransportTest, RefusesWhatItCannotShare) {
  EXPECT_EQ(MakeShmTransport({.world_size = 2, .all_ranks_on_host = false}).status().code(),
            gwTransportUnavailable);
  EXPECT_EQ(MakeShmTransport({.rank = 2, .world_size = 2}).status().code(), gwInvalidArgument);
  auto small = MakeShmTransport({.rank = 0, .world_size = 2, .fragment_bytes = 64});
  auto large = MakeShmTransport({.rank = 1, .world_size = 2, .fragment_bytes = 128});
  ASSERT_TRUE(small.ok() && large.ok());
  const std::vector<std::string> addresses = {(*small)->address(), (*large)->address()};
  EXPECT_EQ((*small)->Connect(addresses).code(), gwTransportUnavailable);
}

// While it lives this process can write no more to a file than this.
class MostFileBytes {
 public:
  explicit MostFileBytes(int64_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit most = {.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &most), 0);
  }
  ~MostFileBytes() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

 private:
  rlimit before_ = {};
};

TEST(ShmMemoryTest, IsRefusedAndNoSignalWhereFilesMayNotBeSoLarge) {
  const ShmShape shape = {.world_size = 2, .slots = kSlots, .fragment_bytes = 64};
  StatusOr<ShmInbox> inbox = ShmInbox::Create(shape);
  ASSERT_TRUE(inbox.ok()) << inbox.status().ToString();
  const int64_t bytes = lseek(inbox->address().fd, 0, SEEK_END);
  Status refused, enough;
  {
    const MostFileBytes most(bytes - 1);
    refused = ShmInbox::Create(shape).status();
  }
  {
    const MostFileBytes most(bytes);
    enough = ShmInbox::Create(shape).status();
  }
  EXPECT_EQ(refused.code(), gwTransportUnavailable);
  EXPECT_THAT(refused.ToString(), HasSubstr("File too large"));
  EXPECT_TRUE(enough.ok()) << enough.ToString();
}

TEST(ShmMemoryTest, OpensNothingButTheInboxMeant) {
  const ShmShape shape = {.world_size = 2, .slots = kSlots, .fragment_bytes = 64};
  StatusOr<ShmInbox> inbox = ShmInbox::Create(shape);
  ASSERT_TRUE(inbox.ok()) << inbox.status().ToString();
  ShmAddress address = inbox->address();
  EXPECT_TRUE(ShmInbox::Open(address).ok());
  address.token.words[0] ^= 1;
  EXPECT_THAT(ShmInbox::Open(address).status().ToString(), HasSubstr("another process"));
  address = inbox->address();
  address.shape.fragment_bytes = 256;  // it would lie beyond the end
  EXPECT_THAT(ShmInbox::Open(address).status().ToString(), HasSubstr("not a rank's memory"));
  address.fd = 1 << 20;
  EXPECT_EQ(ShmInbox::Open(address).status().code(), gwTransportUnavailable);
}

TEST(ShmMemoryTest, FileThatCouldShrinkIsNoInbox) {
  const ShmShape shape = {.world_size = 2, .slots = kSlots, .fragment_bytes = 64};
  StatusOr<ShmInbox> inbox = ShmInbox::Create(shape);
  ASSERT_TRUE(inbox.ok()) << inbox.status().ToString();
  ShmAddress address = inbox->address();
  const int64_t bytes = lseek(address.fd, 0, SEEK_END);
  // The same bytes, token and all, in an ordinary file.
  std::FILE* copy = std::tmpfile();
  ASSERT_NE(copy, nullptr);
  off_t from = 0;
  ASSERT_EQ(sendfile(fileno(copy), address.fd, &from, static_cast<size_t>(bytes)), bytes);
  address.fd = fileno(copy);
  EXPECT_THAT(ShmInbox::Open(address).status().ToString(), HasSubstr("not a rank's memory"));
  std::fclose(copy);
}

TEST(ShmMemoryTest, DecodesAddressesOnly) {
  const ShmAddress address = {
      .pid = 1, .fd = 2, .shape = {.world_size = 2, .slots = 4, .fragment_bytes = 64}};
  const std::string bytes = EncodeShmAddress(address);
  ASSERT_TRUE(DecodeShmAddress(bytes).ok());
  EXPECT_EQ(DecodeShmAddress(bytes)->shape, address.shape);
  EXPECT_EQ(DecodeShmAddress(bytes.substr(1)).status().code(), gwInvalidArgument);
  EXPECT_EQ(DecodeShmAddress(std::string(bytes.size(), '\0')).status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
