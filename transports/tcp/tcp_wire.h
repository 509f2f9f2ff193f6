// What the TCP transport puts on the wire besides frames, and the address that it publishes.
// docs/wire_format.md, section "Frames over TCP", is the specification.
//
//   hello                            once, from the rank that connects
//   prefix, header, payload, pad     for every frame
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_WIRE_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_WIRE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/view.h"
#include "transports/frame/frame.h"

namespace gradwire {

inline constexpr uint32_t kTcpHelloMagic = 0x31545747;   // "GWT1"
inline constexpr uint32_t kTcpPrefixMagic = 0x31465747;  // "GWF1"
inline constexpr uint16_t kTcpVersion = 1;

// Payloads are padded to it, so that all of them are aligned for the widest element where they
// arrive. More would buy nothing: 64 KiB are added to a gradient as fast from any offset.
inline constexpr int64_t kTcpAlign = 8;

// Made by a listener, known to the members of its job.
using TcpToken = std::array<std::byte, 16>;

// The first bytes of a connection.
struct TcpHello {
  uint32_t magic = kTcpHelloMagic;
  uint16_t version = kTcpVersion;
  uint16_t src = 0;     // the rank that connects
  TcpToken token = {};  // of the one that it connects to
};
static_assert(sizeof(TcpHello) == 24);

// Before each frame. The header behind it is not looked into: it may be damaged.
struct TcpPrefix {
  uint32_t magic = kTcpPrefixMagic;
  uint32_t payload_bytes = 0;
};
static_assert(sizeof(TcpPrefix) == 8);

inline constexpr int64_t kTcpHeadBytes = sizeof(TcpPrefix) + sizeof(FrameHeader);

constexpr int64_t TcpPadBytes(int64_t payload_bytes) { return -payload_bytes & (kTcpAlign - 1); }
constexpr int64_t TcpFrameBytes(int64_t payload_bytes) {
  return kTcpHeadBytes + payload_bytes + TcpPadBytes(payload_bytes);
}

// Who says hello; nothing unless the bytes are a hello of this version for the listener with
// `token`, from one of `world_size` ranks. Any bytes whatever; the time does not depend on where
// the tokens differ.
std::optional<int> ParseTcpHello(ConstBytes hello, const TcpToken& token, int world_size);

// What a rank tells the others.
struct TcpAddress {
  int rank = 0;
  int32_t fragment_bytes = 0;
  TcpToken token = {};
  std::string host_port;  // numeric
};

// Opaque bytes, at most 4 KiB.
std::string EncodeTcpAddress(const TcpAddress& address);

// Any bytes whatever are decoded or gwInvalidArgument; host_port is not looked into.
StatusOr<TcpAddress> DecodeTcpAddress(std::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_WIRE_H_
