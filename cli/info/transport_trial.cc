#include "cli/info/transport_trial.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace gradwire {
namespace {

constexpr int64_t kPatienceNs = 2 * kNsPerSecond;

// Outlives the ends, which may read it until they are gone.
constexpr std::array<std::byte, 64> kContent = {};

class Witness final : public Sink {
 public:
  void OnFragment(int, const FrameHeader&, ConstBytes) override { arrived_ = true; }
  void OnSent(SendToken) override {}
  void OnPeerLost(int, const Status& cause) override { lost_ = cause; }

  bool arrived() const { return arrived_; }
  const Status& lost() const { return lost_; }

 private:
  bool arrived_ = false;
  Status lost_;
};

FrameHeader HeaderOf(uint64_t job, ConstBytes fragment) {
  FrameHeader header;
  header.job = job;
  header.message_bytes = header.fragment_bytes = static_cast<uint32_t>(fragment.size);
  SealFrame(&header, fragment);
  return header;
}

// From the first to the second.
Status SendOne(Transport& from, Transport& to, uint64_t job, const Clock& clock) {
  const ConstBytes fragment(kContent.data(), kContent.size());
  const FrameHeader header = HeaderOf(job, fragment);
  const int64_t deadline_ns = clock.NowNs() + kPatienceNs;
  Witness sender, receiver;
  bool accepted = false;
  while (clock.NowNs() < deadline_ns) {
    accepted = accepted || from.TrySend(1, header, fragment, 0) == SendOutcome::kAccepted;
    (void)from.Progress(&sender);
    (void)to.Progress(&receiver);
    if (receiver.arrived()) return Status::Ok();
    if (!sender.lost().ok()) return sender.lost();
    if (!receiver.lost().ok()) return receiver.lost();
    GW_RETURN_IF_ERROR(to.Wait(kNsPerMs));
  }
  return Status(
      gwTransportUnavailable,
      fmt::format("nothing came from one rank to another within {} s", kPatienceNs / kNsPerSecond),
      "Set another transport, or look at the network and its firewall");
}

}  // namespace

Status TryTransport(const TransportRow& row, TransportOptions options, const Clock& clock) {
  options.world_size = 2;
  options.all_ranks_on_host = row.within_host;
  std::array<std::unique_ptr<Transport>, 2> ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; ++rank) {
    options.rank = rank;
    StatusOr<std::unique_ptr<Transport>> made = row.make(options);
    if (!made.ok()) return made.status();
    ends[rank] = std::move(*made);
    addresses.push_back(ends[rank]->address());
  }
  for (const auto& end : ends) GW_RETURN_IF_ERROR(end->Connect(addresses));
  return SendOne(*ends[0], *ends[1], options.job, clock);
}

}  // namespace gradwire
