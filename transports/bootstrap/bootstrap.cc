#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>

#include <utility>

#include "transports/bootstrap/bootstrap_internal.h"

namespace gradwire {
namespace {

Status CheckOptions(const BootstrapOptions& o) {
  if (o.world_size < 1 || o.world_size > kMaxControlRanks) {
    return Status(gwInvalidArgument,
                  fmt::format("world size {} is not in 1..{}", o.world_size, kMaxControlRanks));
  }
  if (o.rank < 0 || o.rank >= o.world_size) {
    return Status(gwInvalidArgument,
                  fmt::format("rank {} is not in 0..{}", o.rank, o.world_size - 1));
  }
  if (static_cast<int64_t>(o.blob.size()) > kMaxBlobBytes) {
    return Status(gwInvalidArgument,
                  fmt::format("a blob of {} bytes is over 64 KiB", o.blob.size()));
  }
  return {};
}

StatusOr<BootstrapResult> Alone(const BootstrapOptions& options) {
  BootstrapResult result{.roster = {.blobs = {options.blob}}};
  if (options.choose_settings) {
    StatusOr<std::string> settings = options.choose_settings(result.roster.blobs);
    if (!settings.ok()) return settings.status();
    result.roster.settings = std::move(*settings);
  }
  if (options.use_roster) GW_RETURN_IF_ERROR(options.use_roster(result.roster));
  return result;
}

}  // namespace

Status CheckSecret(const BootstrapOptions& options, const SocketAddress& root) {
  if (!options.secret.empty() || options.insecure || root.IsLoopback()) return {};
  return Status(
      gwInvalidUsage,
      ErrorDetail{.message = fmt::format("no secret for {}, which other machines can reach",
                                         root.ToString()),
                  .hint = "Set GRADWIRE_SECRET to the same random text on all ranks, or "
                          "GRADWIRE_INSECURE=1 on a network that you trust",
                  .rank = options.rank});
}

VainWait MakeVainWait(const BootstrapOptions& options) {
  return VainWait({.rank = options.rank,
                   .world_size = options.world_size,
                   .launch_board = options.launch_board,
                   .clock = options.clock,
                   .cancelled = options.cancelled});
}

StatusOr<BootstrapResult> Bootstrap(BootstrapOptions options) {
  GW_RETURN_IF_ERROR(CheckOptions(options));
  if (options.world_size == 1) return Alone(options);
  return options.rank == 0 ? RunHost(std::move(options)) : RunGuest(options);
}

}  // namespace gradwire
