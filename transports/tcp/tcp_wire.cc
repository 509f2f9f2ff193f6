#include "transports/tcp/tcp_wire.h"

#include <fmt/format.h>

#include <cstring>

namespace gradwire {
namespace {

constexpr uint32_t kAddressMagic = 0x31415447;  // "GTA1"

struct AddressHead {
  uint32_t magic = kAddressMagic;
  int32_t fragment_bytes = 0;
  TcpToken token = {};
  uint16_t version = kTcpVersion;
  uint16_t rank = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(AddressHead) == 32);

bool SameToken(const TcpToken& a, const TcpToken& b) {
  std::byte different{0};
  for (size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return different == std::byte{0};
}

}  // namespace

std::optional<int> ParseTcpHello(ConstBytes bytes, const TcpToken& token, int world_size) {
  TcpHello hello;
  if (bytes.size != sizeof hello) return std::nullopt;
  std::memcpy(&hello, bytes.data, sizeof hello);
  const bool invited = SameToken(hello.token, token);
  const bool known = hello.magic == kTcpHelloMagic && hello.version == kTcpVersion;
  if (!invited || !known || hello.src >= world_size) return std::nullopt;
  return hello.src;
}

std::string EncodeTcpAddress(const TcpAddress& address) {
  const AddressHead head = {.fragment_bytes = address.fragment_bytes,
                            .token = address.token,
                            .rank = static_cast<uint16_t>(address.rank)};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + address.host_port;
}

StatusOr<TcpAddress> DecodeTcpAddress(std::string_view bytes) {
  AddressHead head;
  const Status wrong(
      gwInvalidArgument,
      fmt::format("tcp: {} bytes that are no address of this transport", bytes.size()),
      "All ranks must use the same transport and the same version of gradwire");
  if (bytes.size() <= sizeof head) return wrong;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kAddressMagic || head.version != kTcpVersion) return wrong;
  return TcpAddress{.rank = head.rank,
                    .fragment_bytes = head.fragment_bytes,
                    .token = head.token,
                    .host_port = std::string(bytes.substr(sizeof head))};
}

}  // namespace gradwire
