// What travels, without a socket: hello, address, and frames through an outbox and an inbox.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "transports/tcp/tcp_inbox.h"
#include "transports/tcp/tcp_outbox.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

constexpr int32_t kMostBytes = 256;

TcpToken Token(int value) {
  TcpToken token;
  token.fill(static_cast<std::byte>(value));
  return token;
}

template <typename T>
ConstBytes View(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

std::vector<std::byte> Pattern(int64_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (int64_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(seed + 7 * i);
  return data;
}

ConstBytes View(const std::vector<std::byte>& data) {
  return {data.data(), static_cast<int64_t>(data.size())};
}

// What would be written next, at most `most` bytes of it.
std::string Write(TcpOutbox* outbox, int64_t most, std::vector<SendToken>* done) {
  std::array<iovec, TcpOutbox::kMostPieces> pieces;
  std::string text;
  for (const iovec& piece : outbox->Gather(&pieces)) {
    text.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  text.resize(std::min<size_t>(text.size(), most));
  outbox->Advance(static_cast<int64_t>(text.size()), done);
  return text;
}

struct Taken {
  uint32_t message;
  std::vector<std::byte> payload;
};

// Gives `text` to the inbox as far as there is space, and takes what is complete. False: damaged.
bool Feed(TcpInbox* inbox, std::string text, std::vector<Taken>* taken) {
  while (!text.empty()) {
    const Bytes space = inbox->Space();
    const size_t bytes = std::min<size_t>(text.size(), space.size);
    std::memcpy(space.data, text.data(), bytes);
    inbox->Added(static_cast<int64_t>(bytes));
    text.erase(0, bytes);
    for (;;) {
      FrameHeader header;
      ConstBytes payload;
      const TcpInbox::Next next = inbox->Take(&header, &payload);
      if (next == TcpInbox::Next::kDamaged) return false;
      if (next == TcpInbox::Next::kNothing) break;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(payload.data) % kTcpAlign, 0u);
      taken->push_back({header.message, {payload.data, payload.data + payload.size}});
    }
  }
  return true;
}

TEST(TcpWireTest, HelloIsTheListenersTokenAndARank) {
  const TcpHello good = {.src = 2, .token = Token(5)};
  EXPECT_EQ(ParseTcpHello(View(good), Token(5), 3), 2);
  EXPECT_FALSE(ParseTcpHello(View(good), Token(6), 3));
  EXPECT_FALSE(ParseTcpHello(View(good), Token(5), 2)) << "there is no rank 2";
  EXPECT_FALSE(ParseTcpHello(View(good).Sub(0, 23), Token(5), 3));
}

TEST(TcpWireTest, EveryBitOfAHelloButTheRankCounts) {
  const TcpHello good = {.src = 1, .token = Token(5)};
  for (size_t bit = 0; bit < 8 * sizeof good; ++bit) {
    TcpHello bad = good;
    reinterpret_cast<uint8_t*>(&bad)[bit / 8] ^= 1u << bit % 8;
    const bool in_rank = bit / 8 >= offsetof(TcpHello, src) && bit / 8 < offsetof(TcpHello, token);
    const std::optional<int> src = ParseTcpHello(View(bad), Token(5), 2);
    EXPECT_TRUE(in_rank ? src != 1 : !src) << "bit " << bit;
  }
}

TEST(TcpWireTest, AddressesComeBack) {
  const TcpAddress mine = {
      .rank = 3, .fragment_bytes = 4096, .token = Token(9), .host_port = "[::1]:4000"};
  const auto decoded = DecodeTcpAddress(EncodeTcpAddress(mine));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->rank, 3);
  EXPECT_EQ(decoded->fragment_bytes, 4096);
  EXPECT_EQ(decoded->token, Token(9));
  EXPECT_EQ(decoded->host_port, "[::1]:4000");
  for (const std::string& bad : {std::string(), std::string(32, 'x'), std::string(100, '\0'),
                                 EncodeTcpAddress({.rank = 1})}) {
    EXPECT_EQ(DecodeTcpAddress(bad).status().code(), gwInvalidArgument);
  }
}

// The bytes of docs/wire_format.md.
TEST(TcpOutboxTest, PutsHelloPrefixAndPadAroundAFrame) {
  TcpOutbox outbox;
  outbox.Greet({.src = 3, .token = Token(0xAB)});
  const std::vector<std::byte> payload = Pattern(5, 1);
  const FrameHeader header = {.message = 9};
  EXPECT_EQ(outbox.Push(header, View(payload), 77), 8 + 3);
  std::vector<SendToken> done;
  const std::string text = Write(&outbox, 1000, &done);
  ASSERT_EQ(text.size(), 24u + 8 + 64 + 5 + 3);
  EXPECT_EQ(text.substr(0, 8), std::string("GWT1\1\0\3\0", 8));
  EXPECT_EQ(text.substr(8, 16), std::string(16, '\xAB'));
  EXPECT_EQ(text.substr(24, 8), std::string("GWF1\5\0\0\0", 8));
  EXPECT_EQ(std::memcmp(text.data() + 32, &header, 64), 0);
  EXPECT_EQ(std::memcmp(text.data() + 96, payload.data(), 5), 0);
  EXPECT_EQ(text.substr(101), std::string(3, '\0'));
  EXPECT_EQ(done, (std::vector<SendToken>{77}));
  EXPECT_TRUE(outbox.empty());
}

TEST(TcpOutboxTest, GreetsAgainUntilTheGreetingIsOut) {
  TcpOutbox outbox;
  outbox.Greet({.src = 3, .token = Token(0xAB)});
  outbox.Push({.message = 9}, {}, 77);
  std::vector<SendToken> done;
  EXPECT_EQ(Write(&outbox, sizeof(TcpHello) - 1, &done).size(), sizeof(TcpHello) - 1);
  EXPECT_TRUE(outbox.greets());
  outbox.GreetAgain();
  EXPECT_EQ(Write(&outbox, sizeof(TcpHello), &done).substr(0, 8), std::string("GWT1\1\0\3\0", 8));
  EXPECT_FALSE(outbox.greets());
  EXPECT_EQ(Write(&outbox, 1000, &done).substr(0, 4), "GWF1");
  EXPECT_EQ(done, (std::vector<SendToken>{77}));
}

// Frames of all sizes, written and read in pieces of all sizes.
TEST(TcpStreamTest, ArrivesWholeHoweverItIsCut) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomStream random(seed);
    TcpOutbox outbox;
    TcpInbox inbox;
    ASSERT_TRUE(inbox.Open(kMostBytes).ok());
    std::vector<std::vector<std::byte>> sources;
    for (int i = 0; i < 40; ++i) sources.push_back(Pattern(random.Below(kMostBytes + 1), i));
    std::vector<SendToken> done;
    std::vector<Taken> taken;
    for (uint32_t next = 0; taken.size() < sources.size();) {
      if (next < sources.size() && !outbox.full()) {
        outbox.Push({.message = next}, View(sources[next]), next);
        ++next;
      }
      const int64_t most = 1 + random.Below(random.Below(2) == 0 ? 20 : 2000);
      ASSERT_TRUE(Feed(&inbox, Write(&outbox, most, &done), &taken));
      ASSERT_LE(taken.size(), done.size());
    }
    EXPECT_FALSE(inbox.partial());
    for (uint32_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(done[i], i);
      EXPECT_EQ(taken[i].message, i);
      EXPECT_EQ(taken[i].payload, sources[i]);
    }
  }
}

TEST(TcpInboxTest, LoneFramesAreAlignedToTheCacheLine) {
  TcpInbox inbox;
  ASSERT_TRUE(inbox.Open(kMostBytes).ok());
  for (const int64_t bytes : {0, 1, 8, 100, 256, 3}) {
    TcpOutbox outbox;
    const std::vector<std::byte> payload = Pattern(bytes, 1);
    outbox.Push({}, View(payload), 1);
    std::vector<SendToken> done;
    const std::string text = Write(&outbox, 1000, &done);
    std::memcpy(inbox.Space().data, text.data(), text.size());
    inbox.Added(static_cast<int64_t>(text.size()));
    FrameHeader header;
    ConstBytes taken;
    ASSERT_EQ(inbox.Take(&header, &taken), TcpInbox::Next::kFrame);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.data) % kBufferAlign, 0u);
  }
}

TEST(TcpInboxTest, FrameOfTheLargestSizeFitsAndNoLarger) {
  for (const uint32_t bytes : {uint32_t{kMostBytes}, uint32_t{kMostBytes + 1}, ~0u}) {
    TcpInbox inbox;
    ASSERT_TRUE(inbox.Open(kMostBytes).ok());
    const TcpPrefix prefix = {.payload_bytes = bytes};
    std::string text(reinterpret_cast<const char*>(&prefix), sizeof prefix);
    text.resize(TcpFrameBytes(kMostBytes));
    std::vector<Taken> taken;
    EXPECT_EQ(Feed(&inbox, text, &taken), bytes == kMostBytes) << bytes;
    EXPECT_EQ(taken.size(), bytes == kMostBytes ? 1u : 0u);
  }
}

TEST(TcpInboxTest, NoiseIsDamageAtOnce) {
  TcpInbox inbox;
  ASSERT_TRUE(inbox.Open(kMostBytes).ok());
  std::vector<Taken> taken;
  EXPECT_TRUE(Feed(&inbox, "GET / H", &taken)) << "it is no prefix yet";
  EXPECT_TRUE(inbox.partial());
  EXPECT_FALSE(Feed(&inbox, "T", &taken));
  EXPECT_TRUE(taken.empty());
}

// --- Cancel: operation 1 in frames 0 2 4, operation 2 in frames 1 3

struct Cancelled {
  std::vector<SendToken> at_once;
  std::vector<uint32_t> arrived;
};

// Cancels operation 1 once `written` bytes are out, and spoils its sources.
Cancelled CancelAfter(int64_t written) {
  TcpOutbox outbox;
  outbox.Greet({});
  std::vector<std::vector<std::byte>> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(Pattern(100 + i, i));
  for (uint32_t i = 0; i < 5; ++i) {
    outbox.Push({.op_seq = 1 + i % 2, .message = i}, View(sources[i]), i);
  }
  std::vector<SendToken> done;
  std::string text = Write(&outbox, written, &done);
  Cancelled result;
  outbox.Cancel(1, &result.at_once);
  const std::vector<std::vector<std::byte>> intact = sources;
  for (const SendToken token : result.at_once) sources[token].assign(100 + token, std::byte{0xEE});
  std::vector<SendToken> later;
  text += Write(&outbox, 10'000, &later);
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(done.size() + result.at_once.size() + later.size(), 5u) << "each token once";
  TcpInbox inbox;
  EXPECT_TRUE(inbox.Open(kMostBytes).ok());
  std::vector<Taken> taken;
  EXPECT_EQ(text.substr(0, 4), "GWT1") << "the greeting is nobody's to cancel";
  EXPECT_TRUE(Feed(&inbox, text.substr(sizeof(TcpHello)), &taken));
  for (const Taken& frame : taken) {
    result.arrived.push_back(frame.message);
    EXPECT_EQ(frame.payload, intact[frame.message]);
  }
  return result;
}

TEST(TcpOutboxTest, CancelDropsWhatIsNotBegun) {
  for (const int64_t written : {0, 10, 24}) {  // none or all of the greeting
    const Cancelled result = CancelAfter(written);
    EXPECT_EQ(result.at_once, (std::vector<SendToken>{0, 2, 4}));
    EXPECT_EQ(result.arrived, (std::vector<uint32_t>{1, 3}));
  }
}

TEST(TcpOutboxTest, CancelFinishesAHalfWrittenFrameWithoutItsSource) {
  for (const int64_t begun : {1, 8, 71, 72, 100, 172}) {  // of frame 0, which has 72 + 100 + 4
    const Cancelled result = CancelAfter(24 + begun);
    EXPECT_EQ(result.at_once, (std::vector<SendToken>{0, 2, 4})) << begun;
    EXPECT_EQ(result.arrived, (std::vector<uint32_t>{0, 1, 3})) << begun;
  }
}

TEST(TcpOutboxTest, CancelSparesAHalfWrittenFrameOfAnotherOperation) {
  const Cancelled result = CancelAfter(24 + 176 + 50);
  EXPECT_EQ(result.at_once, (std::vector<SendToken>{2, 4}));
  EXPECT_EQ(result.arrived, (std::vector<uint32_t>{0, 1, 3}));
}

TEST(TcpOutboxTest, CancelSparesMessagesBetweenTwoRanks) {
  TcpOutbox outbox;
  outbox.Push({.flags = kFramePointToPoint, .op_seq = 1}, {}, 5);
  std::vector<SendToken> done;
  outbox.Cancel(1, &done);
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(Write(&outbox, 1000, &done).size(), 72u);
}

TEST(TcpOutboxTest, ClearCompletesEveryTokenOnce) {
  TcpOutbox outbox;
  const std::vector<std::byte> payload = Pattern(100, 1);
  for (SendToken i = 0; i < 3; ++i) outbox.Push({.op_seq = 1}, View(payload), i);
  std::vector<SendToken> done;
  Write(&outbox, 10, &done);
  outbox.Cancel(1, &done);
  outbox.Clear(&done);
  EXPECT_EQ(done, (std::vector<SendToken>{0, 1, 2}));
  EXPECT_TRUE(outbox.empty());
}

}  // namespace
}  // namespace gradwire
