// What a rank tells the others about its end: UCX's own address, and what both ends must agree on.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_ADDRESS_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "transports/ucx/ucx_plan.h"

namespace gradwire {

struct UcxAddress {
  UcxFabric fabric = UcxFabric::kShared;
  int rank = 0;
  int32_t fragment_bytes = 0;
  unsigned major = 0, minor = 0;  // of the rank's libucp
  std::string worker;             // for ucp_ep_create
};

// Opaque bytes, at most 4 KiB unless the worker's own part is longer.
std::string EncodeUcxAddress(const UcxAddress& address);

// Any bytes whatever are decoded or gwInvalidArgument.
StatusOr<UcxAddress> DecodeUcxAddress(std::string_view bytes);

// Whether the end `mine` can talk with the end `theirs` of rank `rank`. gwTransportUnavailable with
// field and both values where the two were set up differently; logs where the versions differ,
// which mostly works.
Status CheckUcxPeer(const UcxAddress& mine, const UcxAddress& theirs, int rank);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_ADDRESS_H_
