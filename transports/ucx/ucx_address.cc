#include "transports/ucx/ucx_address.h"

#include <fmt/format.h>

#include <cstring>

#include "base/log.h"

namespace gradwire {
namespace {

constexpr uint32_t kMagic = 0x31585547;  // "GUX1"

struct Head {
  uint32_t magic = kMagic;
  uint16_t rank = 0;
  uint8_t fabric = 0;
  uint8_t reserved = 0;
  int32_t fragment_bytes = 0;
  uint16_t major = 0, minor = 0;
};
static_assert(sizeof(Head) == 16);

const char* Name(UcxFabric fabric) {
  switch (fabric) {
    case UcxFabric::kShared: return "shared memory";
    case UcxFabric::kTcp: return "tcp";
    case UcxFabric::kOther: return "several";
  }
  return "unknown";
}

Status Differ(int rank, const char* field, const std::string& mine, const std::string& theirs) {
  return Status(gwTransportUnavailable,
                ErrorDetail{.message = fmt::format("ucx: rank {} is set up differently", rank),
                            .hint = "Give all ranks the same UCX_TLS, interface and fragment size",
                            .peer = rank,
                            .field = field,
                            .expected = mine + " (here)",
                            .actual = fmt::format("{} (rank {})", theirs, rank)});
}

}  // namespace

std::string EncodeUcxAddress(const UcxAddress& address) {
  const Head head = {.rank = static_cast<uint16_t>(address.rank),
                     .fabric = static_cast<uint8_t>(address.fabric),
                     .fragment_bytes = address.fragment_bytes,
                     .major = static_cast<uint16_t>(address.major),
                     .minor = static_cast<uint16_t>(address.minor)};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes + address.worker;
}

StatusOr<UcxAddress> DecodeUcxAddress(std::string_view bytes) {
  Head head;
  const Status wrong(
      gwInvalidArgument,
      fmt::format("ucx: {} bytes that are no address of this transport", bytes.size()),
      "All ranks must use the same transport and the same version of gradwire");
  if (bytes.size() <= sizeof head) return wrong;
  std::memcpy(&head, bytes.data(), sizeof head);
  const bool known = head.fabric >= 1 && head.fabric <= static_cast<uint8_t>(UcxFabric::kOther);
  if (head.magic != kMagic || !known) return wrong;
  return UcxAddress{.fabric = static_cast<UcxFabric>(head.fabric),
                    .rank = head.rank,
                    .fragment_bytes = head.fragment_bytes,
                    .major = head.major,
                    .minor = head.minor,
                    .worker = std::string(bytes.substr(sizeof head))};
}

Status CheckUcxPeer(const UcxAddress& mine, const UcxAddress& theirs, int rank) {
  if (theirs.rank != rank) {
    return Status(gwInvalidArgument,
                  fmt::format("ucx: the address of rank {} stands where rank {}'s should",
                              theirs.rank, rank));
  }
  if (theirs.fabric != mine.fabric) {
    return Differ(rank, "fabric", Name(mine.fabric), Name(theirs.fabric));
  }
  if (theirs.fragment_bytes != mine.fragment_bytes) {
    return Differ(rank, "fragment bytes", std::to_string(mine.fragment_bytes),
                  std::to_string(theirs.fragment_bytes));
  }
  if (theirs.major != mine.major || theirs.minor != mine.minor) {
    GW_LOG(kWarn, kNet,
           "ucx: rank {} has version {}.{}, here is {}.{}; only near ones are compatible", rank,
           theirs.major, theirs.minor, mine.major, mine.minor);
  }
  return Status::Ok();
}

}  // namespace gradwire
