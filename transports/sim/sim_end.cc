#include "transports/sim/sim_end.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace gradwire {

SimEnd::SimEnd(std::shared_ptr<SimNetwork> network, int rank, int world_size,
               const TransportCaps& caps)
    : network_(std::move(network)), rank_(rank), world_size_(world_size), caps_(caps) {}

SimEnd::~SimEnd() { network_->KillNow(rank_); }

std::string SimEnd::AddressOf(int rank) const {
  return fmt::format("sim network {} rank {}", fmt::ptr(network_.get()), rank);
}

std::string SimEnd::address() const { return AddressOf(rank_); }

Status SimEnd::Connect(std::span<const std::string> addresses) {
  for (int peer = 0; peer < world_size_; ++peer) {
    if (addresses.size() == static_cast<size_t>(world_size_) &&
        addresses[peer] == AddressOf(peer)) {
      continue;
    }
    return Status(gwTransportUnavailable,
                  fmt::format("sim: {} addresses for {} ranks, or rank {} is in another network",
                              addresses.size(), world_size_, peer));
  }
  return Status::Ok();
}

SendOutcome SimEnd::TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                            SendToken token) {
  assert(fragment.size <= caps_.max_fragment_bytes);
  return network_->Send(
      {.src = rank_, .dst = peer, .header = header, .source = fragment, .token = token});
}

int SimEnd::Progress(Sink* sink) { return network_->Drain(rank_, sink); }

Status SimEnd::Wait(int64_t /*timeout_ns*/) { return Status::Ok(); }

void SimEnd::Cancel(uint32_t op_seq) { network_->Cancel(rank_, op_seq); }

}  // namespace gradwire
