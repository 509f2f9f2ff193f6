// For tests: ends of the TCP transport on loopback, and what a stranger to them can do.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_ENDS_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_ENDS_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/view.h"
#include "transports/bootstrap/address.h"
#include "transports/control/socket.h"
#include "transports/frame/frame.h"
#include "transports/tcp/tcp_transport.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {

// For what must come at once.
inline constexpr int64_t kPatienceNs = 20 * kNsPerSecond;

using TcpEnds = std::vector<std::unique_ptr<Transport>>;

inline std::unique_ptr<Transport> MakeEnd(int rank, int world_size = 2) {
  auto end = MakeTcpTransport({.rank = rank, .world_size = world_size, .interface = "lo"});
  EXPECT_TRUE(end.ok()) << end.status().ToString();
  return end.ok() ? std::move(*end) : nullptr;
}

inline TcpEnds Connected(int world_size) {
  TcpEnds ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < world_size; ++rank) {
    ends.push_back(MakeEnd(rank, world_size));
    addresses.push_back(ends.back()->address());
  }
  for (auto& end : ends) EXPECT_TRUE(end->Connect(addresses).ok());
  return ends;
}

// With its checksums.
inline SendOutcome Send(Transport* end, int peer, FrameHeader header, ConstBytes fragment,
                        SendToken token = 0) {
  SealFrame(&header, fragment);
  return end->TrySend(peer, header, fragment, token);
}

// --- a stranger's side

inline UniqueFd Call(const SocketAddress& address) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), address.get(), address.bytes()), 0);
  return fd;
}

inline UniqueFd Call(const Transport& end) {
  const auto decoded = DecodeTcpAddress(end.address());
  EXPECT_TRUE(decoded.ok());
  return Call(*ResolveHost(*ParseHostPort(decoded->host_port)));
}

inline TcpHello HelloFor(const Transport& end, int src) {
  return {.src = static_cast<uint16_t>(src), .token = DecodeTcpAddress(end.address())->token};
}

template <typename T>
void Say(const UniqueFd& fd, const T& value, size_t bytes = sizeof(T)) {
  EXPECT_EQ(send(fd.get(), &value, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

inline bool IsClosed(const UniqueFd& fd) {
  std::byte byte;
  const ReadOutcome::Kind kind = ReadSome(fd.get(), {.data = &byte, .size = 1}).kind;
  return kind == ReadOutcome::Kind::kClosed || kind == ReadOutcome::Kind::kFailed;
}

// Waits for it.
inline bool EndsClosed(const UniqueFd& fd) {
  pollfd end = {fd.get(), POLLIN, 0};
  return poll(&end, 1, kPatienceNs / kNsPerMs) == 1 && IsClosed(fd);
}

// What `end`, rank 0 of 2, takes for rank 1.
inline UniqueFd ListenAsRank1(Transport* end) {
  StatusOr<UniqueFd> listener = Listen(*InterfaceAddress("lo", 0));
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  const TcpAddress rank1 = {.rank = 1,
                            .fragment_bytes = end->caps().max_fragment_bytes,
                            .host_port = BoundAddress(listener->get())->ToString()};
  EXPECT_TRUE(end->Connect(std::vector<std::string>{end->address(), EncodeTcpAddress(rank1)}).ok());
  return std::move(*listener);
}

// Waits for it.
inline UniqueFd Accept(const UniqueFd& listener) {
  pollfd caller = {listener.get(), POLLIN, 0};
  EXPECT_EQ(poll(&caller, 1, kPatienceNs / kNsPerMs), 1);
  return UniqueFd(accept(listener.get(), nullptr, nullptr));
}

// Whether all that has come is a greeting and a frame without a fragment.
inline bool HasHeardAFrame(const UniqueFd& fd) {
  std::array<std::byte, 4096> all;
  const ssize_t bytes = recv(fd.get(), all.data(), all.size(), MSG_PEEK | MSG_DONTWAIT);
  return bytes == static_cast<ssize_t>(sizeof(TcpHello)) + TcpFrameBytes(0);
}

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_ENDS_H_
