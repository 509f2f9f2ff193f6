// The end of a peer: in the middle of a flood, before anything was said, and after its last words.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/lib/forked_ranks.h"
#include "tests/lib/ucx_node.h"
#include "transports/ucx/ucx_transport.h"

namespace gradwire {
namespace {

using UcxDeathTest = OnEachUcxFabric;

// Rank 0 sends nine messages and goes away at once. `met`: the two have talked before, and rank 1
// looks only when rank 0 is gone; else rank 1 is looking (UCX's first contact takes both).
std::string LastWords(ForkedRank& rank, const std::string& tls, bool met) {
  UcxNode node(rank, tls);
  if (!node.error.empty()) return node.error;
  std::vector<std::byte> data(4096);
  Fill(&data, 3);
  if (met) {
    node.Send(1 - rank.rank(), FirstOf(data, 0));
    if (!node.Until([&] { return node.heard.fragments == 1 && node.AllSent(); })) return "no start";
    rank.Barrier();
  }
  if (rank.rank() == 0) {
    for (uint32_t i = 0; i < 8; ++i) node.Send(1, FirstOf(data, 4096), {.offset = i * 4096});
    node.Send(1, FirstOf(data, 0), {.offset = 8 * 4096});
    const int64_t start = SteadyClock().NowNs();
    node.transport.reset();
    const int64_t took = SteadyClock().NowNs() - start;
    rank.Barrier();
    return took > 2 * kNsPerSecond ? fmt::format("the destructor took {} ms", took / kNsPerMs) : "";
  }
  if (met) rank.Barrier();
  const int64_t all = 9 + met;
  if (!node.Until([&] { return node.heard.fragments == all; }, 5)) {
    return fmt::format("{} of {} came", node.heard.fragments, all);
  }
  if (!met) rank.Barrier();
  return node.heard.wrong;
}

TEST_P(UcxDeathTest, LastWordsArriveAfterTheSenderIsGone) {
  const auto body = [](ForkedRank& rank) { return LastWords(rank, Tls(), true); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxDeathTest, FirstWordsAreTheLastOnes) {
  const auto body = [](ForkedRank& rank) { return LastWords(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// It connected and went, or was killed, before anything was said.
std::string OutliveASilentPeer(ForkedRank& rank, const std::string& tls, bool killed) {
  UcxNode node(rank, tls);
  if (!node.error.empty()) return node.error;
  const std::vector<std::byte> data(4096);
  if (rank.rank() == 1) {
    if (killed) raise(SIGKILL);
    return "";
  }
  const bool must_notice = node.transport->caps().detects_peer_death;
  const int64_t start = SteadyClock().NowNs();
  const auto over = [&] {
    node.Offer(1, FirstOf(data, 4096));
    return must_notice ? !node.heard.lost.empty() : SteadyClock().NowNs() - start > 100 * kNsPerMs;
  };
  return node.Until(over, 10) ? node.Verdict() : "the loss was not noticed";
}

TEST_P(UcxDeathTest, SilentPeerMayGo) {
  const auto body = [](ForkedRank& rank) { return OutliveASilentPeer(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxDeathTest, SilentPeerMayBeKilled) {
  const auto body = [](ForkedRank& rank) { return OutliveASilentPeer(rank, Tls(), true); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

// Rank 1 is killed before rank 0 connects to it, or else between its own connecting to rank 0 and
// rank 0's answer, when UCX uses one connection for both ways.
std::string ConnectToAGonePeer(ForkedRank& rank, const std::string& tls, bool it_connected) {
  setenv("UCX_TLS", tls.c_str(), 1);
  auto made = MakeUcxTransport({.rank = rank.rank(), .world_size = 2});
  if (!made.ok()) return made.status().ToString();
  Transport& end = **made;
  const std::vector<std::string> addresses = rank.Gather(end.address());
  UcxSink heard;
  const auto progress = [&](int64_t ns) {
    const Deadline deadline = Deadline::After(SteadyClock(), ns);
    while (heard.lost.empty() && !deadline.Expired(SteadyClock())) end.Progress(&heard);
  };
  if (rank.rank() == 1) {
    const std::byte data[64] = {};
    if (it_connected && !end.Connect(addresses).ok()) return "rank 1 cannot connect";
    if (it_connected) end.TrySend(0, {}, {data, 64}, 1);
    rank.Barrier();
    rank.Barrier();
    raise(SIGKILL);
  }
  rank.Barrier();
  progress(50 * kNsPerMs);
  rank.Barrier();
  rank.Barrier();  // it is buried
  const Status connected = end.Connect(addresses);
  if (!connected.ok()) return connected.code() == gwTransportUnavailable ? "" : "another code";
  const std::byte data[64] = {};
  if (end.TrySend(1, {}, {data, 64}, 1) == SendOutcome::kAccepted) heard.outstanding.insert(1);
  progress(200 * kNsPerMs);
  return heard.wrong;
}

TEST_P(UcxDeathTest, PeerMayBeGoneBeforeConnect) {
  const auto body = [](ForkedRank& rank) { return ConnectToAGonePeer(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

TEST_P(UcxDeathTest, PeerMayGoInTheMiddleOfConnecting) {
  const auto body = [](ForkedRank& rank) { return ConnectToAGonePeer(rank, Tls(), true); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

// Sends without end to a rank that kills itself in the middle of it.
std::string OutliveRankOne(ForkedRank& rank, const std::string& tls) {
  UcxNode node(rank, tls, {.death_timeout_ns = 200 * kNsPerMs});
  if (!node.error.empty()) return node.error;
  const bool must_notice = node.transport->caps().detects_peer_death;
  const int64_t most = node.transport->caps().max_fragment_bytes;
  std::vector<std::byte> data(most);
  if (rank.rank() == 1) {
    node.Until([&] { return node.heard.fragments >= 20; });
    raise(SIGKILL);
  }
  bool lost = false;
  uint32_t messages = 0;
  const int64_t start = SteadyClock().NowNs();
  const auto over = [&] {
    lost = lost || node.Offer(1, FirstOf(data, most), {.op_seq = 9, .message = ++messages}) ==
                       SendOutcome::kLost;
    if (must_notice) return lost && !node.heard.lost.empty();
    return SteadyClock().NowNs() - start > kNsPerSecond;
  };
  if (!node.Until(over, 10)) return "the loss was not noticed";
  node.transport->Cancel(9);
  const bool all_back = node.Until([&] { return node.AllSent(); }, 1);
  const int64_t closing = SteadyClock().NowNs();
  node.transport.reset();
  const int64_t took = SteadyClock().NowNs() - closing;
  if (took > 2 * kNsPerSecond) return fmt::format("the destructor took {} ms", took / kNsPerMs);
  if (!all_back) return "tokens are out after a cancel";
  if (node.heard.lost.size() > 1) return "the loss was reported twice";
  return node.Verdict();
}

TEST_P(UcxDeathTest, KilledPeerHangsNobodyAndLeavesNothing) {
  // Where no other test's files are.
  std::string folder = "/dev/shm/ucx_death_test.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("UCX_POSIX_DIR", folder.c_str(), 1);
  const auto body = [](ForkedRank& rank) { return OutliveRankOne(rank, Tls()); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  unsetenv("UCX_POSIX_DIR");
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, UcxDeathTest, UcxFabrics(), UcxFabricName);

// A rank that only receives has no connection of its own making whose error could tell it.
TEST(UcxTcpDeathTest, ReceiverNoticesADeadSender) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, "tcp,self");
    if (!node.error.empty()) return node.error;
    const std::vector<std::byte> data(64);
    if (rank.rank() == 1) {
      node.Send(0, FirstOf(data, 64));
      node.Until([&] { return node.AllSent(); });
      rank.Barrier();
      raise(SIGKILL);
    }
    if (!node.Until([&] { return node.heard.fragments == 1; })) return "nothing came";
    node.Until([] { return true; });
    rank.Barrier();
    if (!node.Until([&] { return !node.heard.lost.empty(); }, 5)) return "the loss is not noticed";
    if (node.transport->TrySend(1, {}, {}, 1) != SendOutcome::kLost) return "it takes a send";
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

}  // namespace
}  // namespace gradwire
