// What the TCP transport hears from a network: [what, bytes]. A hello, an address, or a stream of
// frames, which is given in pieces of all sizes and must be cut the same way however it comes.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "transports/tcp/tcp_inbox.h"
#include "transports/tcp/tcp_outbox.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire::fuzz {
namespace {

enum What : uint8_t { kHello, kAddress, kStream, kWhats };
constexpr int kWorldSize = 3;
constexpr int32_t kMostBytes = 128;
constexpr TcpToken kToken = {std::byte{1}, std::byte{2}, std::byte{3}};

// Sizes of the payloads that the stream holds; -1 at the end: then it is damaged.
std::vector<int64_t> Cut(ConstBytes stream, int64_t piece) {
  TcpInbox inbox;
  FUZZ_CHECK(inbox.Open(kMostBytes).ok());
  std::vector<int64_t> sizes;
  while (!stream.empty()) {
    const Bytes space = inbox.Space();
    FUZZ_CHECK(space.size >= TcpFrameBytes(kMostBytes));
    const int64_t bytes = std::min({stream.size, space.size, piece});
    std::memcpy(space.data, stream.data, bytes);
    inbox.Added(bytes);
    stream = stream.Sub(bytes, stream.size - bytes);
    FrameHeader header;
    ConstBytes payload;
    TcpInbox::Next next;
    while ((next = inbox.Take(&header, &payload)) == TcpInbox::Next::kFrame) {
      FUZZ_CHECK(payload.size <= kMostBytes);
      sizes.push_back(payload.size);
    }
    if (next == TcpInbox::Next::kDamaged) {
      sizes.push_back(-1);
      return sizes;
    }
  }
  return sizes;
}

void Play(uint8_t what, ConstBytes bytes) {
  switch (what % kWhats) {
    case kHello:
      if (const std::optional<int> src = ParseTcpHello(bytes, kToken, kWorldSize)) {
        FUZZ_CHECK(*src >= 0 && *src < kWorldSize);
        FUZZ_CHECK(std::memcmp(bytes.data + 8, kToken.data(), kToken.size()) == 0);
      }
      break;
    case kAddress: {
      const std::string_view text(reinterpret_cast<const char*>(bytes.data), bytes.size);
      const StatusOr<TcpAddress> address = DecodeTcpAddress(text);
      FUZZ_CHECK(address.ok() || address.status().code() == gwInvalidArgument);
      break;
    }
    case kStream: {
      const std::vector<int64_t> whole = Cut(bytes, INT64_MAX);
      for (const int64_t piece : {1, 7, 72, 200}) FUZZ_CHECK(Cut(bytes, piece) == whole);
      break;
    }
  }
}

template <typename T>
Input Seed(What what, const T& bytes) {
  Input input = {what};
  for (const auto byte : bytes) input.push_back(static_cast<uint8_t>(byte));
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  const TcpHello hello = {.src = 2, .token = kToken};
  const std::string_view hello_text(reinterpret_cast<const char*>(&hello), sizeof hello);
  const std::string address = EncodeTcpAddress(
      {.rank = 1, .fragment_bytes = 65536, .token = kToken, .host_port = "127.0.0.1:4000"});
  TcpOutbox outbox;
  const std::vector<std::byte> payload(kMostBytes, std::byte{5});
  for (const int64_t bytes : {0, 1, 64, 128, 100}) outbox.Push({}, {payload.data(), bytes}, 0);
  std::array<iovec, TcpOutbox::kMostPieces> pieces;
  std::string stream;
  for (const iovec& piece : outbox.Gather(&pieces)) {
    stream.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  return {Seed(kHello, hello_text), Seed(kAddress, address), Seed(kStream, stream)};
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  gradwire::fuzz::Play(
      data[0], {reinterpret_cast<const std::byte*>(data + 1), static_cast<int64_t>(size) - 1});
  return 0;
}
