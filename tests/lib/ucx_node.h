// For tests: ends of the UCX transport in processes of their own.
#ifndef GRADWIRE_TESTS_LIB_UCX_NODE_H_
#define GRADWIRE_TESTS_LIB_UCX_NODE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crc.h"
#include "base/status.h"
#include "base/view.h"
#include "tests/lib/forked_ranks.h"
#include "transports/frame/frame.h"
#include "transports/ucx/ucx_transport.h"

namespace gradwire {

// UCX_TLS for a test's ranks; the processes are forked with it.
class OnEachUcxFabric : public testing::TestWithParam<const char*> {
 protected:
  static std::string Tls() { return GetParam(); }
};

inline auto UcxFabrics() { return testing::Values("posix,self", "tcp,self", "posix,tcp,self"); }

inline std::string UcxFabricName(const testing::TestParamInfo<const char*>& info) {
  const std::string tls = info.param;
  return tls == "posix,tcp,self" ? "both" : tls.substr(0, tls.find(','));
}

inline bool Aligned(const std::byte* p) { return reinterpret_cast<uintptr_t>(p) % 8 == 0; }

// Counts and checks what arrives, and keeps none of it: floods are large. A forked rank has no
// GoogleTest: what it finds wrong it returns.
struct UcxSink : Sink {
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
struct UcxNode {
  explicit UcxNode(ForkedRank& r, const std::string& tls, TransportOptions options = {}) : rank(r) {
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
  UcxSink heard;
  SendToken next_token = 1;
  std::string error;
};

inline ConstBytes FirstOf(const std::vector<std::byte>& data, int64_t bytes) {
  return {data.data(), bytes};
}

inline void Fill(std::vector<std::byte>* data, uint32_t seed) {
  for (size_t i = 0; i < data->size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    (*data)[i] = static_cast<std::byte>(seed >> 24);
  }
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_UCX_NODE_H_
