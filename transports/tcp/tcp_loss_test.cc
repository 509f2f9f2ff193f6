// The end of a peer: what is lost with it, and what still comes before.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/lib/forked_ranks.h"
#include "tests/lib/recording_sink.h"
#include "tests/lib/sanitized.h"
#include "transports/bootstrap/address.h"
#include "transports/connect_bound.h"
#include "transports/tcp/tcp_ends.h"
#include "transports/tcp/tcp_transport.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

TEST(TcpLossTest, DamagedStreamLosesItsPeerOnly) {
  const auto most = static_cast<uint32_t>(MakeEnd(0)->caps().max_fragment_bytes);
  TcpPrefix too_long = {.payload_bytes = most + 1};
  TcpPrefix wrong_magic = {};
  wrong_magic.magic ^= 1u << 31;
  for (const TcpPrefix& prefix : {too_long, wrong_magic}) {
    TcpEnds ends = Connected(3);
    CheckingSink heard1, heard2;
    const UniqueFd rank0 = Call(*ends[1]);
    Say(rank0, HelloFor(*ends[1], 0));
    Say(rank0, prefix);
    EXPECT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return !heard1.lost.empty(); }));
    EXPECT_EQ(heard1.lost, (std::vector<int>{0}));
    EXPECT_NE(heard1.why.find("from rank 0: what came is no frame"), heard1.why.npos);
    EXPECT_EQ(Send(ends[1].get(), 0, {}, {}), SendOutcome::kLost);
    EXPECT_EQ(Send(ends[1].get(), 2, {.message = 3}, {}), SendOutcome::kAccepted);
    EXPECT_TRUE(Until({{ends[1].get(), &heard1}, {ends[2].get(), &heard2}},
                      [&] { return !heard2.arrivals.empty(); }));
  }
}

TEST(TcpLossTest, EndInTheMiddleOfAFrameIsALoss) {
  TcpEnds ends = Connected(2);
  CheckingSink heard;
  UniqueFd rank0 = Call(*ends[1]);
  Say(rank0, HelloFor(*ends[1], 0));
  Say(rank0, TcpPrefix{.payload_bytes = 8});
  rank0.reset();
  EXPECT_TRUE(Until({{ends[1].get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("in the middle of a frame"), heard.why.npos) << heard.why;
  EXPECT_TRUE(heard.arrivals.empty());
}

// Rank 0 has sent eight fragments and is gone before rank 1 looks.
void ExpectLastWords(bool rank1_speaks_first) {
  TcpEnds ends = Connected(2);
  CheckingSink heard0, heard1;
  const std::vector<std::byte> data(4096, std::byte{3});
  for (uint32_t i = 0; i < 8; ++i) {
    const auto outcome = [&] {
      return Send(ends[0].get(), 1, {.message = i}, {data.data(), 4096}, i);
    };
    ASSERT_TRUE(
        Until({{ends[0].get(), &heard0}}, [&] { return outcome() == SendOutcome::kAccepted; }));
  }
  ASSERT_TRUE(Until({{ends[0].get(), &heard0}}, [&] { return heard0.sent.size() == 8; }));
  ends[0].reset();
  if (rank1_speaks_first) {
    EXPECT_NE(Send(ends[1].get(), 0, {}, {}, 9), SendOutcome::kFull);
  }
  EXPECT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return !heard1.lost.empty(); }));
  EXPECT_EQ(heard1.messages(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Send(ends[1].get(), 0, {}, {}), SendOutcome::kLost);
}

TEST(TcpLossTest, LastWordsArriveBeforeTheLoss) { ExpectLastWords(false); }

TEST(TcpLossTest, RefusedConnectionDoesNotHideThem) { ExpectLastWords(true); }

TEST(TcpLossTest, RankThatNeverSpokeIsLostToWhomWritesToIt) {
  TcpEnds ends = Connected(2);
  CheckingSink heard;
  ends[1].reset();
  EXPECT_NE(Send(ends[0].get(), 1, {}, {}, 7), SendOutcome::kFull);
  EXPECT_TRUE(Until({{ends[0].get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("to rank 1 at 127.0.0.1:"), heard.why.npos) << heard.why;
  EXPECT_NE(heard.why.find("refused"), heard.why.npos) << heard.why;
  EXPECT_EQ(ends[0]->Progress(&heard), 0);
}

// Rank 0 of 2, by a clock of the test's.
std::unique_ptr<Transport> MakeRank0(const Clock& clock, int64_t death_ns) {
  auto end = MakeTcpTransport(
      {.rank = 0, .world_size = 2, .interface = "lo", .death_timeout_ns = death_ns}, clock);
  EXPECT_TRUE(end.ok()) << end.status().ToString();
  return end.ok() ? std::move(*end) : nullptr;
}

// As behind a wall that drops packets: the kernel drops calls that find the backlog full.
TEST(TcpLossTest, PeerThatNeverAnswersIsLostAfterTheBoundWithAHint) {
  for (const int64_t death_ns : {kNsPerMs, 10 * kNsPerSecond}) {
    ManualClock clock;
    auto end = MakeRank0(clock, death_ns);
    const UniqueFd listener = ListenAsRank1(end.get());
    ASSERT_EQ(listen(listener.get(), 0), 0);
    const UniqueFd first = Call(*BoundAddress(listener.get()));
    CheckingSink heard;
    EXPECT_EQ(Send(end.get(), 1, {}, {}, 7), SendOutcome::kAccepted);
    clock.Advance(std::max(death_ns, kLeastConnectBoundNs));
    EXPECT_EQ(end->Progress(&heard), 0);
    clock.Advance(1);
    EXPECT_EQ(end->Progress(&heard), 2);
    EXPECT_EQ(heard.sent, std::vector<SendToken>{7});
    EXPECT_EQ(heard.lost, std::vector<int>{1});
    EXPECT_NE(heard.why.find("Rank 0 must reach 127.0.0.1:"), heard.why.npos) << heard.why;
    EXPECT_NE(heard.why.find("GRADWIRE_INTERFACE"), heard.why.npos) << heard.why;
  }
}

// A wall that drops what goes in one direction only.
TEST(TcpLossTest, PeerThatConnectsButNeverAnswersHearsOfNoEnd) {
  ManualClock clock;
  auto end = MakeRank0(clock, kNsPerSecond);
  const UniqueFd listener = ListenAsRank1(end.get());
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const UniqueFd first = Call(*BoundAddress(listener.get()));
  const UniqueFd rank1 = Call(*end);
  Say(rank1, HelloFor(*end, 1));
  const auto speak = [&](uint32_t message) {
    Say(rank1, TcpPrefix{});
    Say(rank1, FrameHeader{.message = message});
  };
  speak(1);
  CheckingSink heard;
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.arrivals.size() == 1; }));
  EXPECT_EQ(Send(end.get(), 1, {}, {}), SendOutcome::kAccepted);
  clock.Advance(kLeastConnectBoundNs + 1);
  EXPECT_EQ(end->Progress(&heard), 2);
  EXPECT_EQ(heard.lost, std::vector<int>{1});
  EXPECT_NE(heard.why.find("GRADWIRE_INTERFACE"), heard.why.npos) << heard.why;
  speak(2);
  EXPECT_EQ(end->Progress(&heard), 0);
  EXPECT_EQ(Send(end.get(), 1, {}, {}), SendOutcome::kLost);
  EXPECT_FALSE(IsClosed(rank1)) << "it would blame rank 0";
}

TEST(TcpLossTest, WithoutADeathTimeoutACallHasNoBound) {
  ManualClock clock;
  auto end = MakeRank0(clock, 0);
  const UniqueFd listener = ListenAsRank1(end.get());
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const UniqueFd first = Call(*BoundAddress(listener.get()));
  CheckingSink heard;
  EXPECT_EQ(Send(end.get(), 1, {}, {}), SendOutcome::kAccepted);
  clock.Advance(3600 * kNsPerSecond);
  EXPECT_EQ(end->Progress(&heard), 0);
}

// The kernel has answered, and the peer reads when it comes to it.
TEST(TcpLossTest, RankThatStoodStillLongerThanTheBoundLosesNobody) {
  ManualClock clock;
  auto end = MakeRank0(clock, kNsPerSecond);
  const UniqueFd listener = ListenAsRank1(end.get());
  CheckingSink heard;
  EXPECT_EQ(Send(end.get(), 1, {}, {}, 7), SendOutcome::kAccepted);
  clock.Advance(3600 * kNsPerSecond);
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return !heard.sent.empty(); }));
  clock.Advance(3600 * kNsPerSecond);
  end->Progress(&heard);
  EXPECT_TRUE(heard.lost.empty()) << heard.why;
}

// Another program of the process may have used up what it may open.
TEST(TcpLossTest, WithoutADescriptorItIsNotThePeerThatFails) {
  TcpEnds ends = Connected(2);
  CheckingSink sink;
  sink.code_of_loss = gwSystemError;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const SendOutcome outcome = Send(ends[0].get(), 1, {}, {});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome, SendOutcome::kLost);
  ASSERT_TRUE(Until({{ends[0].get(), &sink}}, [&] { return !sink.lost.empty(); }));
  EXPECT_NE(sink.why.find("Too many open files"), sink.why.npos) << sink.why;
}

TEST(TcpLossTest, WithoutADescriptorNobodyIsAwaitedForEver) {
  if (kSanitized) GTEST_SKIP() << "to look at an object it opens a pipe";
  // The shortest bound there is.
  auto end =
      MakeTcpTransport({.rank = 1, .world_size = 2, .interface = "lo", .death_timeout_ns = 1});
  ASSERT_TRUE(end.ok());
  CheckingSink sink;
  sink.code_of_loss = gwSystemError;
  const UniqueFd rank0 = Call(**end);
  Say(rank0, HelloFor(**end, 0));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 2,  // enough to wait
                       .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool lost = Until({{end->get(), &sink}}, [&] { return !sink.lost.empty(); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(lost);
  EXPECT_EQ(sink.lost, (std::vector<int>{0}));
  EXPECT_NE(sink.why.find("no descriptor"), sink.why.npos) << sink.why;
}

// A wall lets connections through in one direction only.
TEST(TcpLossTest, PeerThatCannotBeReachedIsToldAndHeardToItsEnd) {
  auto end = MakeEnd(1);
  auto listener = Listen(*InterfaceAddress("lo", 0));
  ASSERT_TRUE(listener.ok());
  const TcpAddress nobody = {.fragment_bytes = end->caps().max_fragment_bytes,
                             .host_port = BoundAddress(listener->get())->ToString()};
  listener->reset();
  ASSERT_TRUE(
      end->Connect(std::vector<std::string>{EncodeTcpAddress(nobody), end->address()}).ok());
  UniqueFd rank0 = Call(*end);
  Say(rank0, HelloFor(*end, 0));
  const auto speak = [&](uint32_t message) {
    Say(rank0, TcpPrefix{});
    Say(rank0, FrameHeader{.message = message});
  };
  speak(1);
  CheckingSink heard;
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.arrivals.size() == 1; }));
  EXPECT_EQ(Send(end.get(), 0, {}, {}, 7), SendOutcome::kAccepted);
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return !heard.sent.empty(); }));
  EXPECT_EQ(Send(end.get(), 0, {}, {}), SendOutcome::kLost);
  EXPECT_TRUE(EndsClosed(rank0));
  speak(2);
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.arrivals.size() == 2; }));
  EXPECT_TRUE(heard.lost.empty());
  rank0.reset();
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("refused"), heard.why.npos) << heard.why;
}

// Of the process that is killed a child lives on until rank 0 says that it has seen enough.
TEST(TcpLossTest, KilledProcessIsNoticedAndItsTokensComeBack) {
  Pipe enough;
  ASSERT_TRUE(enough.Open().ok());
  const auto body = [&enough](ForkedRank& rank) -> std::string {
    auto end = MakeTcpTransport({.rank = rank.rank(), .world_size = 2, .interface = "lo"});
    if (!end.ok()) return end.status().ToString();
    if (!(*end)->Connect(rank.Gather((*end)->address())).ok()) return "no connect";
    CheckingSink heard;
    const std::vector<std::byte> data((*end)->caps().max_fragment_bytes);
    SendToken tokens = 0;
    const auto flood = [&] {
      const ConstBytes all = {data.data(), static_cast<int64_t>(data.size())};
      if (Send(end->get(), 1, {}, all, tokens) == SendOutcome::kAccepted) ++tokens;
    };
    if (rank.rank() == 1) {
      Until({{end->get(), &heard}}, [&] { return heard.arrivals.size() >= 20; });
      char byte;
      if (fork() == 0) _exit(static_cast<int>(read(enough.read_end.get(), &byte, 1)));
      raise(SIGKILL);
    }
    const bool lost = Until({{end->get(), &heard}}, [&] {
      flood();
      return !heard.lost.empty();
    });
    if (write(enough.write_end.get(), "", 1) != 1) return "no word to the child";
    if (!lost) return "the loss was not noticed";
    return heard.sent.size() == tokens ? "" : "tokens are out";
  };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

}  // namespace
}  // namespace gradwire
