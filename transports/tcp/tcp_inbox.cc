#include "transports/tcp/tcp_inbox.h"

#include <cstring>

#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

// One read takes up to so many of the largest frames. More save few calls and leave the cache.
constexpr int64_t kFrames = 4;

// Puts the payload of the first frame at a multiple of kBufferAlign.
constexpr int64_t kStart = AlignUp(kTcpHeadBytes) - kTcpHeadBytes;

}  // namespace

Status TcpInbox::Open(int32_t max_payload_bytes) {
  max_payload_bytes_ = max_payload_bytes;
  begin_ = end_ = kStart;
  return memory_.EnsureBytes(kStart + kFrames * TcpFrameBytes(max_payload_bytes));
}

Bytes TcpInbox::Space() {
  const int64_t kept = end_ - begin_;
  const bool tight = memory_.size() - end_ < TcpFrameBytes(max_payload_bytes_);
  if (kept == 0 || tight) {
    std::memmove(memory_.data() + kStart, memory_.data() + begin_, kept);
    begin_ = kStart;
    end_ = kStart + kept;
  }
  return {.data = memory_.data() + end_, .size = memory_.size() - end_};
}

TcpInbox::Next TcpInbox::Take(FrameHeader* header, ConstBytes* payload) {
  const std::byte* at = memory_.data() + begin_;
  TcpPrefix prefix;
  if (end_ - begin_ < static_cast<int64_t>(sizeof prefix)) return Next::kNothing;
  std::memcpy(&prefix, at, sizeof prefix);
  if (prefix.magic != kTcpPrefixMagic || prefix.payload_bytes > max_payload_bytes_) {
    return Next::kDamaged;
  }
  if (end_ - begin_ < TcpFrameBytes(prefix.payload_bytes)) return Next::kNothing;
  std::memcpy(header, at + sizeof prefix, sizeof *header);
  *payload = {at + kTcpHeadBytes, prefix.payload_bytes};
  begin_ += TcpFrameBytes(prefix.payload_bytes);
  return Next::kFrame;
}

}  // namespace gradwire
