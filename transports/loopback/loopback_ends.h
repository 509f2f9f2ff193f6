// All ends of one loopback hub, for tests of what runs over them.
#ifndef GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_ENDS_H_
#define GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_ENDS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {

// Small fragments and few slots: messages are cut, and sends are refused at first.
inline constexpr int32_t kEndFragmentBytes = 128, kEndSlots = 2;

// The ends of `n` ranks, not connected yet.
inline StatusOr<std::vector<std::unique_ptr<Transport>>> MakeLoopbackEnds(int n) {
  const auto hub =
      MakeLoopbackHub({.world_size = n, .fragment_bytes = kEndFragmentBytes, .slots = kEndSlots});
  if (!hub.ok()) return hub.status();
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < n; ++rank) {
    StatusOr<std::unique_ptr<Transport>> end = MakeLoopbackEnd(*hub, rank);
    if (!end.ok()) return end.status();
    ends.push_back(std::move(*end));
  }
  return ends;
}

// Ends in rank order, also those around others.
inline Status ConnectEnds(const std::vector<std::unique_ptr<Transport>>& ends) {
  std::vector<std::string> addresses;
  for (const auto& end : ends) addresses.push_back(end->address());
  for (const auto& end : ends) GW_RETURN_IF_ERROR(end->Connect(addresses));
  return Status::Ok();
}

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_ENDS_H_
