#include "transports/tcp/tcp_outbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gradwire {
namespace {

constexpr std::byte kPad[kTcpAlign] = {};

}  // namespace

template <typename Part>
void TcpOutbox::Frame::AppendToHead(const Part& part) {
  std::memcpy(head.data() + head_bytes, &part, sizeof part);
  head_bytes += sizeof part;
}

void TcpOutbox::Frame::Report(std::vector<SendToken>* done) {
  if (std::exchange(has_token, false)) done->push_back(token);
}

void TcpOutbox::Greet(const TcpHello& hello) {
  static_assert(sizeof hello <= kTcpHeadBytes);
  frames_.emplace_back().AppendToHead(hello);
  greets_ = true;
}

int64_t TcpOutbox::Push(const FrameHeader& header, ConstBytes payload, SendToken token) {
  Frame& frame = frames_.emplace_back();
  frame.AppendToHead(TcpPrefix{.payload_bytes = static_cast<uint32_t>(payload.size)});
  frame.AppendToHead(header);
  frame.payload = payload;
  frame.has_token = true;
  frame.token = token;
  frame.op_seq = header.op_seq;
  frame.point_to_point = (header.flags & kFramePointToPoint) != 0;
  return sizeof(TcpPrefix) + TcpPadBytes(payload.size);
}

std::span<iovec> TcpOutbox::Gather(std::array<iovec, kMostPieces>* pieces) const {
  size_t count = 0;
  int64_t skip = written_;
  const auto add = [&](const std::byte* data, int64_t bytes) {
    const int64_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped == bytes) return;
    // Whoever writes them only reads.
    (*pieces)[count++] = {const_cast<std::byte*>(data) + skipped,
                          static_cast<size_t>(bytes - skipped)};
  };
  for (const Frame& frame : frames_) {
    add(frame.head.data(), frame.head_bytes);
    add(frame.payload.data, frame.payload.size);
    add(kPad, TcpPadBytes(frame.payload.size));
  }
  return {pieces->data(), count};
}

void TcpOutbox::Advance(int64_t bytes, std::vector<SendToken>* done) {
  written_ += bytes;
  auto next = frames_.begin();
  for (; next != frames_.end() && written_ >= next->bytes(); ++next) {
    written_ -= next->bytes();
    next->Report(done);
    greets_ = false;
  }
  frames_.erase(frames_.begin(), next);
}

void TcpOutbox::Cancel(uint32_t op_seq, std::vector<SendToken>* done) {
  // Messages between two ranks have a numbering of their own, and a greeting has no token.
  const auto cancelled = [op_seq](const Frame& frame) {
    return frame.has_token && frame.op_seq == op_seq && !frame.point_to_point;
  };
  auto first = frames_.begin();
  if (written_ > 0 && cancelled(*first)) {
    // The receiver has a part of it and must get the rest.
    aside_.assign(first->payload.data, first->payload.data + first->payload.size);
    first->payload = {aside_.data(), first->payload.size};
    first->Report(done);
  }
  for (Frame& frame : frames_) {
    if (cancelled(frame)) frame.Report(done), frame.head_bytes = 0;
  }
  std::erase_if(frames_, [](const Frame& frame) { return frame.head_bytes == 0; });
}

void TcpOutbox::Clear(std::vector<SendToken>* done) {
  for (Frame& frame : frames_) frame.Report(done);
  frames_.clear();
  greets_ = false;
  written_ = 0;
}

}  // namespace gradwire
