// What a transport reports, kept for a test to look at.
#ifndef GRADWIRE_TESTS_LIB_RECORDING_SINK_H_
#define GRADWIRE_TESTS_LIB_RECORDING_SINK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crc.h"
#include "base/status.h"
#include "base/view.h"
#include "transports/transport.h"

namespace gradwire {

struct Arrival {
  int peer = -1;
  FrameHeader header;
  std::string bytes;
  int64_t at_ns = 0;  // of the sink's clock
};

// Keeps everything in the order in which it came. A rank that speaks after its loss, is lost twice
// or for another reason than `code_of_loss` fails the test.
class RecordingSink : public Sink {
 public:
  // Without a clock all comes at 0. It outlives this.
  explicit RecordingSink(const Clock* clock = nullptr) : clock_(clock) {}

  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override {
    EXPECT_FALSE(HasLost(peer)) << "rank " << peer << " speaks after its loss";
    arrivals.push_back({.peer = peer,
                        .header = header,
                        .bytes = {reinterpret_cast<const char*>(fragment.data),
                                  static_cast<size_t>(fragment.size)},
                        .at_ns = NowNs()});
  }
  void OnSent(SendToken token) override { sent.push_back(token); }
  void OnPeerLost(int peer, const Status& cause) override {
    EXPECT_FALSE(HasLost(peer)) << "rank " << peer << " is lost twice";
    EXPECT_EQ(cause.code(), code_of_loss) << cause.ToString();
    lost.push_back(peer);
    lost_at_ns.push_back(NowNs());
    why = cause.ToString();
  }

  // Of all arrivals.
  std::vector<uint32_t> messages() const {
    std::vector<uint32_t> all;
    for (const Arrival& arrival : arrivals) all.push_back(arrival.header.message);
    return all;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const Arrival& arrival : arrivals) all.push_back(arrival.bytes);
    return all;
  }

  std::vector<Arrival> arrivals;
  std::vector<SendToken> sent;
  std::vector<int> lost;
  std::vector<int64_t> lost_at_ns;
  std::string why;  // the last loss
  gwResult_t code_of_loss = gwPeerLost;

 private:
  bool HasLost(int peer) const { return std::count(lost.begin(), lost.end(), peer) > 0; }
  int64_t NowNs() const { return clock_ == nullptr ? 0 : clock_->NowNs(); }

  const Clock* clock_;
};

// The same between hosts: a fragment must have its checksum, and a loss name the peer.
class CheckingSink final : public RecordingSink {
 public:
  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override {
    EXPECT_EQ(Crc32c(fragment.data, fragment.size), header.fragment_crc);
    RecordingSink::OnFragment(peer, header, fragment);
  }
  void OnPeerLost(int peer, const Status& cause) override {
    EXPECT_EQ(cause.detail().peer, peer);
    RecordingSink::OnPeerLost(peer, cause);
  }
};

// Progress by turns until `done`. False: 20 s were not enough.
inline bool Until(const std::vector<std::pair<Transport*, Sink*>>& ends,
                  const std::function<bool()>& done) {
  const Deadline deadline = Deadline::After(SteadyClock(), 20 * kNsPerSecond);
  while (!done()) {
    for (const auto& [end, sink] : ends) end->Progress(sink);
    if (deadline.Expired(SteadyClock())) return false;
  }
  return true;
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_RECORDING_SINK_H_
