#include "transports/loopback/loopback_hub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <utility>

namespace gradwire {

LoopbackHub::LoopbackHub(const LoopbackShape& s) : shape(s), inboxes(s.world_size) {
  for (LoopbackInbox& inbox : inboxes) {
    inbox.from.resize(s.world_size);
    inbox.gone.resize(s.world_size);
  }
}

std::string LoopbackHub::Address(int rank) const {
  return fmt::format("loopback pid {} hub {} rank {}", getpid(), fmt::ptr(this), rank);
}

Status LoopbackHub::Connect(int rank, std::span<const std::string> addresses) {
  if (addresses.size() != inboxes.size()) {
    return Status(gwTransportUnavailable, fmt::format("loopback: {} addresses for {} ranks",
                                                      addresses.size(), shape.world_size));
  }
  for (int peer = 0; peer < shape.world_size; ++peer) {
    if (addresses[peer] == Address(peer)) continue;
    return Status(gwTransportUnavailable,
                  fmt::format("loopback serves ranks that are threads of one process, and rank {} "
                              "is no thread of rank {}'s process",
                              peer, rank),
                  "Set transport=auto, or shm on one host, or tcp between hosts")
        .WithSetting("transport");
  }
  const int64_t slot_bytes = int64_t{sizeof(LoopbackSlot)} + shape.fragment_bytes;
  for (int peer = 0; peer < shape.world_size; ++peer) {
    if (peer == rank) continue;
    GW_RETURN_IF_ERROR(inboxes[peer].from[rank].memory.EnsureBytes(shape.slots * slot_bytes));
  }
  return Status::Ok();
}

StatusOr<std::shared_ptr<LoopbackHub>> MakeLoopbackHub(const LoopbackShape& shape) {
  const int32_t bytes = shape.fragment_bytes;
  if (shape.world_size < 1 || shape.slots < 1 || bytes < 64 || bytes > 1 << 20 || bytes % 64 != 0) {
    return Status(gwInvalidArgument,
                  fmt::format("loopback: {} ranks, {} slots, fragments of {} bytes",
                              shape.world_size, shape.slots, bytes),
                  "At least 1 rank and 1 slot; fragments of a multiple of 64 bytes, at most 1 MiB")
        .WithSetting("fragment_bytes");
  }
  return std::make_shared<LoopbackHub>(shape);
}

StatusOr<std::unique_ptr<Transport>> MakeLoopbackTransport(const TransportOptions& options) {
  // Threads of one process have nothing else in common; a weak entry keeps nothing alive.
  static std::mutex mu;
  static std::map<std::pair<uint64_t, int>, std::weak_ptr<LoopbackHub>> hubs;
  std::shared_ptr<LoopbackHub> hub;
  {
    std::lock_guard lock(mu);
    std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<LoopbackHub>& known = hubs[{options.job, options.world_size}];
    hub = known.lock();
    if (hub == nullptr) {
      LoopbackShape shape = {.world_size = options.world_size};
      if (options.fragment_bytes > 0) shape.fragment_bytes = options.fragment_bytes;
      StatusOr<std::shared_ptr<LoopbackHub>> made = MakeLoopbackHub(shape);
      if (!made.ok()) return made.status();
      known = hub = *made;
    }
  }
  return MakeLoopbackEnd(std::move(hub), options.rank);
}

}  // namespace gradwire
