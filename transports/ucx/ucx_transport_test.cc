// Real processes over shared memory and over TCP on loopback. Their deaths are in
// ucx_death_test.cc.
#include "transports/ucx/ucx_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/lib/forked_ranks.h"
#include "tests/lib/ucx_node.h"

namespace gradwire {
namespace {

using UcxTransportTest = OnEachUcxFabric;

TEST_P(UcxTransportTest, PingPongOfManySizes) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, Tls());
    if (node.transport == nullptr) return node.error;
    const int64_t most = node.transport->caps().max_fragment_bytes;
    std::vector<std::byte> data(most);
    Fill(&data, 7 + rank.rank());
    uint32_t round = 0;
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{100},
                                int64_t{4096}, most - 1, most, int64_t{0}}) {
      const bool first = rank.rank() == 0;
      const auto heard = [&] { return node.heard.fragments > round; };
      if (!first && !node.Until(heard)) return fmt::format("nothing came at {} bytes", bytes);
      node.Send(1 - rank.rank(), FirstOf(data, bytes), {.op_seq = round, .message = round});
      if (first && !node.Until(heard)) return fmt::format("nothing came back at {} bytes", bytes);
      if (node.heard.last.op_seq != round) return "a header changed";
      ++round;
    }
    if (!node.Until([&] { return node.AllSent(); })) return "a token is missing";
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// Every rank to every other at once. A source is overwritten as soon as its token is back, so a
// transport that still reads it is found out.
std::string Flood(ForkedRank& rank, const std::string& tls, int64_t total) {
  UcxNode node(rank, tls);
  if (!node.error.empty()) return node.error;
  const int64_t most = node.transport->caps().max_fragment_bytes;
  const int window = node.transport->caps().fragments_in_flight;
  const int n = rank.world_size();
  std::vector<std::vector<std::byte>> sources(n * window, std::vector<std::byte>(most));
  std::vector<SendToken> token_of(sources.size());
  std::vector<int64_t> sent(n);
  const auto free = [&](size_t i) { return node.heard.outstanding.count(token_of[i]) == 0; };
  const auto step = [&] {
    bool all = true;
    for (int peer = 0; peer < n; ++peer) {
      for (int i = 0; i < window && peer != rank.rank() && sent[peer] < total; ++i) {
        all = false;
        const size_t at = peer * window + i;
        if (!free(at)) continue;
        Fill(&sources[at], static_cast<uint32_t>(sent[peer] + at));
        const int64_t bytes = std::min(most, total - sent[peer]);
        token_of[at] = node.next_token;
        const SendOutcome out = node.Offer(peer, FirstOf(sources[at], bytes),
                                           {.offset = static_cast<uint32_t>(sent[peer])});
        if (out == SendOutcome::kAccepted) sent[peer] += bytes;
      }
    }
    return all && node.heard.bytes == total * (n - 1) && node.AllSent();
  };
  if (!node.Until(step, 50)) return fmt::format("{} of {} bytes came", node.heard.bytes, total);
  rank.Barrier();
  return node.Verdict();
}

TEST_P(UcxTransportTest, FloodBothWaysKeepsEveryByte) {
  const auto body = [](ForkedRank& rank) { return Flood(rank, Tls(), 64 << 20); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxTransportTest, FloodOfFourRanksWithAnOddEnd) {
  const auto body = [](ForkedRank& rank) { return Flood(rank, Tls(), (4 << 20) + 12345); };
  EXPECT_EQ(Failures(RunForked(4, body)), "");
}

TEST_P(UcxTransportTest, QueueOfAPairIsBoundedAndCancelFreesIt) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, Tls());
    if (!node.error.empty()) return node.error;
    const int64_t most = node.transport->caps().max_fragment_bytes;
    std::vector<std::byte> data(most);
    Fill(&data, 5);
    rank.Barrier();
    if (rank.rank() == 0) {
      // Nobody receives, so in the end there is no room.
      SendOutcome out = SendOutcome::kAccepted;
      uint32_t messages = 0;
      const auto full = [&] {
        out = node.Offer(1, FirstOf(data, most), {.op_seq = 1, .message = ++messages});
        return out == SendOutcome::kFull;
      };
      if (!node.Until(full)) return "the queue has no end";
      node.transport->Cancel(1);
      node.transport->Progress(&node.heard);
      // What UCX was in the middle of may be out still.
      if (node.heard.outstanding.size() > 1) return "tokens of a cancelled operation are out";
    }
    rank.Barrier();
    const FrameHeader next = {.op_seq = 2};
    const auto sent = [&] {
      return node.Offer(1, FirstOf(data, most), next) != SendOutcome::kFull;
    };
    if (rank.rank() == 0 && !node.Until(sent)) return "the queue stays full";
    const auto heard = [&] { return node.heard.last.op_seq == 2; };
    if (rank.rank() == 1 && !node.Until(heard)) return "what came after a cancel is lost";
    if (rank.rank() == 0 && !node.Until([&] { return node.AllSent(); })) return "tokens are out";
    rank.Barrier();
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxTransportTest, WaitEndsByTimeByWakeAndByArrival) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, Tls());
    if (!node.error.empty()) return node.error;
    const std::vector<std::byte> data(64);
    // Connect, and let UCX's own messages pass.
    node.Send(1 - rank.rank(), FirstOf(data, 64));
    if (!node.Until([&] { return node.heard.fragments == 1 && node.AllSent(); })) return "no start";
    rank.Barrier();
    const auto idle = [&] { return node.transport->Progress(&node.heard) == 0; };
    int64_t start = SteadyClock().NowNs();
    while (SteadyClock().NowNs() - start < 20 * kNsPerMs) {
      if (!node.transport->Wait(20 * kNsPerMs).ok()) return "a wait failed";
      idle();
    }
    node.transport->Wake();
    start = SteadyClock().NowNs();
    if (!node.transport->Wait(10 * kNsPerSecond).ok()) return "a woken wait failed";
    std::thread waker([&] { node.transport->Wake(); });
    if (!node.transport->Wait(10 * kNsPerSecond).ok()) return "a wait failed";
    waker.join();
    if (SteadyClock().NowNs() - start > 5 * kNsPerSecond) return "a wake was not noticed";
    rank.Barrier();
    // Asleep until a fragment comes; rank 1 sends only once rank 0 is about to sleep.
    start = SteadyClock().NowNs();
    if (rank.rank() == 1) node.Send(0, FirstOf(data, 64), {.offset = 64});
    while (rank.rank() == 0 && node.heard.fragments == 1) {
      if (idle() && !node.transport->Wait(10 * kNsPerSecond).ok()) return "a wait failed";
    }
    if (SteadyClock().NowNs() - start > 5 * kNsPerSecond) return "an arrival was not noticed";
    if (!node.Until([&] { return node.AllSent(); })) return "a token is missing";
    rank.Barrier();
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxTransportTest, ProcessKeepsItsSignalHandlers) {
  const auto body = [](ForkedRank& rank) -> std::string {
    const auto handlers = [] {
      std::vector<void (*)(int)> all;
      for (int number = 1; number < SIGRTMIN; ++number) {
        struct sigaction action = {};
        sigaction(number, nullptr, &action);
        all.push_back(action.sa_handler);
      }
      return all;
    };
    const auto before = handlers();
    UcxNode node(rank, Tls());
    const auto after = handlers();
    rank.Barrier();
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] != after[i]) return fmt::format("signal {} has another handler", i + 1);
    }
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// Used by one thread at a time, but not always by the same.
TEST_P(UcxTransportTest, ThreadsMayTakeTurns) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, Tls());
    if (!node.error.empty()) return node.error;
    std::vector<std::byte> data(4096);
    for (uint32_t turn = 0; turn < 4; ++turn) {
      bool came = false;
      std::thread([&] {
        node.Send(1 - rank.rank(), FirstOf(data, 4096), {.offset = turn * 4096});
        came = node.Until([&] { return node.heard.fragments > turn && node.AllSent(); });
      }).join();
      if (!came) {
        return fmt::format("turn {}: {} fragments, {} tokens out", turn, node.heard.fragments,
                           node.heard.outstanding.size());
      }
    }
    rank.Barrier();
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

INSTANTIATE_TEST_SUITE_P(Fabrics, UcxTransportTest, UcxFabrics(), UcxFabricName);

}  // namespace
}  // namespace gradwire
