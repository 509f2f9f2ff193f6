// Real processes over shared memory and over TCP on loopback.
#include "transports/ucx/ucx_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/crc.h"
#include "tests/lib/forked_ranks.h"

namespace gradwire {
namespace {

// UCX_TLS for a test's ranks; the processes are forked with it.
class UcxTransportTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string Tls() { return GetParam(); }
};

bool Aligned(const std::byte* p) { return reinterpret_cast<uintptr_t>(p) % 8 == 0; }

// Counts and checks what arrives; the content of each fragment follows from its header.
struct Recorder : Sink {
  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override {
    ++fragments;
    bytes += fragment.size;
    if (peer != header.src) wrong = "the header came from another rank";
    if (!Aligned(fragment.data)) wrong = "the fragment is not aligned";
    if (fragment.size != header.fragment_bytes) wrong = "the fragment has another size";
    if (Crc32c(fragment.data, fragment.size) != header.fragment_crc) wrong = "the content changed";
    if (header.message == last.message && peer == last.src && header.offset < next_offset) {
      wrong = "the order changed";
    }
    next_offset = header.offset + header.fragment_bytes;
    last = header;
  }
  void OnSent(SendToken token) override {
    if (!outstanding.erase(token)) wrong = "a token came that was not out";
  }
  void OnPeerLost(int peer, const Status& cause) override {
    lost.push_back(peer);
    if (cause.code() != gwPeerLost) wrong = cause.ToString();
  }

  int64_t fragments = 0, bytes = 0;
  FrameHeader last;
  uint64_t next_offset = 0;
  std::set<SendToken> outstanding;
  std::vector<int> lost;
  std::string wrong;
};

// One rank's end, connected, and what it has heard.
struct Node {
  explicit Node(ForkedRank& r, const std::string& tls, TransportOptions options = {}) : rank(r) {
    if (!tls.empty()) setenv("UCX_TLS", tls.c_str(), 1);
    options.rank = r.rank();
    options.world_size = r.world_size();
    StatusOr<std::unique_ptr<Transport>> made = MakeUcxTransport(options);
    if (!made.ok()) {
      r.Gather("");
      r.Barrier();
      error = made.status().ToString();
      return;
    }
    transport = std::move(*made);
    const std::vector<std::string> addresses = r.Gather(transport->address());
    const Status connected = transport->Connect(addresses);
    if (!connected.ok()) error = connected.ToString();
    r.Barrier();  // nobody goes before all are connected
  }

  // Whether `done` came true within `seconds`; moves things meanwhile.
  template <typename Done>
  bool Until(Done done, int64_t seconds = 20) {
    const Deadline deadline = Deadline::After(SteadyClock(), seconds * kNsPerSecond);
    while (!done()) {
      if (transport->Progress(&heard) == 0 && deadline.Expired(SteadyClock())) return false;
    }
    return true;
  }

  // Until it is taken.
  bool Send(int peer, ConstBytes fragment, const FrameHeader& header = {}) {
    SendOutcome outcome;
    const auto taken = [&] {
      outcome = Offer(peer, fragment, header);
      return outcome != SendOutcome::kFull;
    };
    return Until(taken) && outcome == SendOutcome::kAccepted;
  }

  SendOutcome Offer(int peer, ConstBytes fragment, FrameHeader header = {}) {
    header.src = static_cast<uint16_t>(rank.rank());
    header.fragment_bytes = static_cast<uint32_t>(fragment.size);
    header.fragment_crc = Crc32c(fragment.data, fragment.size);
    const SendOutcome outcome = transport->TrySend(peer, header, fragment, next_token);
    if (outcome == SendOutcome::kAccepted) heard.outstanding.insert(next_token++);
    return outcome;
  }

  bool AllSent() const { return heard.outstanding.empty(); }

  std::string Verdict() const { return !error.empty() ? error : heard.wrong; }

  ForkedRank& rank;
  std::unique_ptr<Transport> transport;
  Recorder heard;
  SendToken next_token = 1;
  std::string error;
};

ConstBytes View(const std::vector<std::byte>& v, int64_t bytes) { return {v.data(), bytes}; }

void Fill(std::vector<std::byte>* data, uint32_t seed) {
  for (size_t i = 0; i < data->size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    (*data)[i] = static_cast<std::byte>(seed >> 24);
  }
}

TEST_P(UcxTransportTest, PingPongOfManySizes) {
  const auto body = [](ForkedRank& rank) -> std::string {
    Node node(rank, Tls());
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
      node.Send(1 - rank.rank(), View(data, bytes), {.op_seq = round, .message = round});
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
  Node node(rank, tls);
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
        const SendOutcome out = node.Offer(peer, View(sources[at], bytes),
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

// Rank 0 sends nine messages and goes away at once. `met`: the two have talked before, and rank 1
// looks only when rank 0 is gone; else rank 1 is looking (UCX's first contact takes both).
std::string LastWords(ForkedRank& rank, const std::string& tls, bool met) {
  Node node(rank, tls);
  if (!node.error.empty()) return node.error;
  std::vector<std::byte> data(4096);
  Fill(&data, 3);
  if (met) {
    node.Send(1 - rank.rank(), View(data, 0));
    if (!node.Until([&] { return node.heard.fragments == 1 && node.AllSent(); })) return "no start";
    rank.Barrier();
  }
  if (rank.rank() == 0) {
    for (uint32_t i = 0; i < 8; ++i) node.Send(1, View(data, 4096), {.offset = i * 4096});
    node.Send(1, View(data, 0), {.offset = 8 * 4096});
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

TEST_P(UcxTransportTest, LastWordsArriveAfterTheSenderIsGone) {
  const auto body = [](ForkedRank& rank) { return LastWords(rank, Tls(), true); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxTransportTest, FirstWordsAreTheLastOnes) {
  const auto body = [](ForkedRank& rank) { return LastWords(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// It connected and went, or was killed, before anything was said.
std::string OutliveASilentPeer(ForkedRank& rank, const std::string& tls, bool killed) {
  Node node(rank, tls);
  if (!node.error.empty()) return node.error;
  const std::vector<std::byte> data(4096);
  if (rank.rank() == 1) {
    if (killed) raise(SIGKILL);
    return "";
  }
  const bool must_notice = node.transport->caps().detects_peer_death;
  const int64_t start = SteadyClock().NowNs();
  const auto over = [&] {
    node.Offer(1, View(data, 4096));
    return must_notice ? !node.heard.lost.empty() : SteadyClock().NowNs() - start > 100 * kNsPerMs;
  };
  return node.Until(over, 10) ? node.Verdict() : "the loss was not noticed";
}

TEST_P(UcxTransportTest, SilentPeerMayGo) {
  const auto body = [](ForkedRank& rank) { return OutliveASilentPeer(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST_P(UcxTransportTest, SilentPeerMayBeKilled) {
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
  Recorder heard;
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

TEST_P(UcxTransportTest, PeerMayBeGoneBeforeConnect) {
  const auto body = [](ForkedRank& rank) { return ConnectToAGonePeer(rank, Tls(), false); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

TEST_P(UcxTransportTest, PeerMayGoInTheMiddleOfConnecting) {
  const auto body = [](ForkedRank& rank) { return ConnectToAGonePeer(rank, Tls(), true); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

TEST_P(UcxTransportTest, QueueOfAPairIsBoundedAndCancelFreesIt) {
  const auto body = [](ForkedRank& rank) -> std::string {
    Node node(rank, Tls());
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
        out = node.Offer(1, View(data, most), {.op_seq = 1, .message = ++messages});
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
    const auto sent = [&] { return node.Offer(1, View(data, most), next) != SendOutcome::kFull; };
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
    Node node(rank, Tls());
    if (!node.error.empty()) return node.error;
    const std::vector<std::byte> data(64);
    // Connect, and let UCX's own messages pass.
    node.Send(1 - rank.rank(), View(data, 64));
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
    if (rank.rank() == 1) node.Send(0, View(data, 64), {.offset = 64});
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

std::set<std::string> SharedMemoryNames() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("ucx") != name.npos) names.insert(name);
  }
  return names;
}

// Sends without end to a rank that kills itself in the middle of it.
std::string OutliveRankOne(ForkedRank& rank, const std::string& tls) {
  Node node(rank, tls, {.death_timeout_ns = 200 * kNsPerMs});
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
    lost = lost || node.Offer(1, View(data, most), {.op_seq = 9, .message = ++messages}) ==
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

TEST_P(UcxTransportTest, KilledPeerHangsNobodyAndLeavesNothing) {
  const std::set<std::string> before = SharedMemoryNames();
  const auto body = [](ForkedRank& rank) { return OutliveRankOne(rank, Tls()); };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
  for (const std::string& name : SharedMemoryNames()) {
    EXPECT_TRUE(before.count(name)) << "left in /dev/shm: " << name;
  }
}

// A rank that only receives has no connection of its own making whose error could tell it.
TEST(UcxTransportTcpTest, ReceiverNoticesADeadSender) {
  const auto body = [](ForkedRank& rank) -> std::string {
    Node node(rank, "tcp,self");
    if (!node.error.empty()) return node.error;
    const std::vector<std::byte> data(64);
    if (rank.rank() == 1) {
      node.Send(0, View(data, 64));
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

TEST_P(UcxTransportTest, ProcessKeepsItsSignalHandlers) {
  const auto body = [](ForkedRank& rank) -> std::string {
    struct sigaction before = {}, after = {};
    sigaction(SIGSEGV, nullptr, &before);
    Node node(rank, Tls());
    sigaction(SIGSEGV, nullptr, &after);
    rank.Barrier();
    if (before.sa_handler != after.sa_handler) return "SIGSEGV has another handler";
    return node.Verdict();
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// Used by one thread at a time, but not always by the same.
TEST_P(UcxTransportTest, ThreadsMayTakeTurns) {
  const auto body = [](ForkedRank& rank) -> std::string {
    Node node(rank, Tls());
    if (!node.error.empty()) return node.error;
    std::vector<std::byte> data(4096);
    for (uint32_t turn = 0; turn < 4; ++turn) {
      bool came = false;
      std::thread([&] {
        node.Send(1 - rank.rank(), View(data, 4096), {.offset = turn * 4096});
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

INSTANTIATE_TEST_SUITE_P(Fabrics, UcxTransportTest,
                         testing::Values("posix,self", "tcp,self", "posix,tcp,self"),
                         [](const auto& info) {
                           const std::string tls = info.param;
                           return tls == "posix,tcp,self" ? "both" : tls.substr(0, tls.find(','));
                         });

// The error of rank 0 where each rank has its own UCX_TLS.
std::string ErrorWith(const std::vector<std::string>& tls, const TransportOptions& options = {}) {
  const auto body = [&](ForkedRank& rank) -> std::string {
    return Node(rank, tls[rank.rank()], options).error;
  };
  const std::vector<ForkedResult> results = RunForked(static_cast<int>(tls.size()), body);
  return results[0].returned ? results[0].text : "rank 0 did not return";
}

TEST(UcxTransportSetUpTest, SharedMemoryIsTheChoiceOnOneHost) {
  const auto body = [](ForkedRank& rank) -> std::string {
    Node node(rank, "");
    if (!node.error.empty()) return node.error;
    rank.Barrier();
    const bool shared = node.transport->caps().max_fragment_bytes == 32 << 10;
    return shared && !node.transport->caps().detects_peer_death ? "" : "it is something else";
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST(UcxTransportSetUpTest, SelfAloneFailsClearly) {
  const std::string error = ErrorWith({"self", "self"});
  EXPECT_NE(error.find("UCX_TLS=self"), error.npos) << error;
  EXPECT_NE(error.find("reaches no other process"), error.npos) << error;
}

TEST(UcxTransportSetUpTest, DifferentChoicesFailClearly) {
  const std::string error = ErrorWith({"posix,self", "tcp,self"});
  EXPECT_NE(error.find("shared memory"), error.npos) << error;
  EXPECT_NE(error.find("tcp"), error.npos) << error;
}

TEST(UcxTransportSetUpTest, UnknownTransportFailsClearly) {
  const std::string error = ErrorWith({"nonsense", "nonsense"});
  EXPECT_NE(error.find("ucx"), error.npos) << error;
  EXPECT_NE(error.find("nonsense"), error.npos) << error;
}

TEST(UcxTransportSetUpTest, UnknownInterfaceFailsClearly) {
  const std::string error =
      ErrorWith({"", ""}, {.interface = "gwnone0", .all_ranks_on_host = false});
  EXPECT_NE(error.find("'gwnone0'"), error.npos) << error;
  EXPECT_NE(error.find("lo"), error.npos) << error;
}

TEST(UcxTransportSetUpTest, ArgumentsAreChecked) {
  const TransportOptions bad[] = {
      {.rank = 2, .world_size = 2}, {.rank = -1, .world_size = 2}, {.rank = 0, .world_size = 0}};
  for (const TransportOptions& options : bad) {
    const auto made = MakeUcxTransport(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), gwInvalidArgument);
  }
}

}  // namespace
}  // namespace gradwire
