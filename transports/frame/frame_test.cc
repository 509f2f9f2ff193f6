#include "transports/frame/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/rng.h"

namespace gradwire {
namespace {

constexpr FrameExpectation kExpected = {
    .job = 0x1122334455667788, .epoch = 7, .world_size = 4, .max_message_bytes = 4096};

struct Frame {
  FrameHeader header;
  std::vector<std::byte> payload;

  ConstBytes fragment() const { return {payload.data(), static_cast<int64_t>(payload.size())}; }
  FrameVerdict Check(Status* why = nullptr) const {
    return CheckFrame(header, fragment(), kExpected, why);
  }
};

// The middle fragment of a message of three.
Frame MakeFrame(int64_t bytes = 128) {
  Frame frame;
  RandomStream random(42);
  for (int64_t i = 0; i < bytes; ++i) frame.payload.push_back(static_cast<std::byte>(random()));
  frame.header.job = kExpected.job;
  frame.header.epoch = kExpected.epoch;
  frame.header.turn = 65535;
  frame.header.src = 3;
  frame.header.op_seq = 12;
  frame.header.slice = 1;
  frame.header.message = 9;
  frame.header.offset = 128;
  frame.header.message_bytes = 300;
  frame.header.fragment_bytes = static_cast<uint32_t>(bytes);
  frame.header.signature = 0xABCDEF;
  SealFrame(&frame.header, frame.fragment());
  return frame;
}

TEST(FrameTest, SealedFrameIsValid) {
  const Frame frame = MakeFrame();
  Status why;
  EXPECT_EQ(frame.Check(&why), FrameVerdict::kValid);
  EXPECT_TRUE(why.ok()) << why.ToString();
}

TEST(FrameTest, BareHeaderIsValid) {
  FrameHeader header{.src = 1, .epoch = kExpected.epoch, .job = kExpected.job};
  SealFrame(&header, {});
  EXPECT_EQ(CheckFrame(header, {}, kExpected, nullptr), FrameVerdict::kValid);
}

// The layout is the wire format: the positions of docs/wire_format.md.
TEST(FrameTest, FieldsLieWhereTheSpecificationSays) {
  Frame frame = MakeFrame();
  unsigned char wire[64];
  std::memcpy(wire, &frame.header, sizeof wire);
  EXPECT_EQ(std::string(wire, wire + 4), "GWW1");
  EXPECT_EQ(wire[4], 1);
  EXPECT_EQ(wire[5], 64);
  EXPECT_EQ(wire[6] | wire[7] << 8, 65535);
  EXPECT_EQ(wire[10], 3);
  EXPECT_EQ(wire[12], 7);
  EXPECT_EQ(wire[16], 0x88);
  EXPECT_EQ(wire[24], 12);
  EXPECT_EQ(wire[28], 1);
  EXPECT_EQ(wire[32], 9);
  EXPECT_EQ(wire[36], 128);
  EXPECT_EQ(wire[40] | wire[41] << 8, 300);
  EXPECT_EQ(wire[44], 128);
  EXPECT_EQ(wire[48], 0xEF);
  uint32_t fragment_crc = 0, header_crc = 0;
  std::memcpy(&fragment_crc, wire + 56, 4);
  std::memcpy(&header_crc, wire + 60, 4);
  EXPECT_EQ(fragment_crc, Crc32c(frame.payload.data(), 128));
  EXPECT_EQ(header_crc, Crc32c(wire, 60));
}

// The example of docs/wire_format.md; its checksums were computed by another program.
TEST(FrameTest, ExampleOfTheSpecification) {
  constexpr unsigned char kWire[80] = {
      0x47, 0x57, 0x57, 0x31, 0x01, 0x40, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x07, 0x00,
      0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x0c, 0x00, 0x00, 0x00,
      0x01, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
      0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0xef, 0xcd, 0xab, 0x00, 0x00, 0x00, 0x00, 0x00,
      0xeb, 0x08, 0xc9, 0xd9, 0xcf, 0xf4, 0x60, 0x75, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05,
      0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f};
  FrameHeader header = {.src = 3,
                        .epoch = 7,
                        .job = 0x1122334455667788,
                        .op_seq = 12,
                        .slice = 1,
                        .message = 9,
                        .message_bytes = 16,
                        .fragment_bytes = 16,
                        .signature = 0xABCDEF};
  const ConstBytes payload(reinterpret_cast<const std::byte*>(kWire) + 64, 16);
  SealFrame(&header, payload);
  EXPECT_EQ(std::memcmp(&header, kWire, 64), 0);
  EXPECT_EQ(CheckFrame(header, payload, kExpected, nullptr), FrameVerdict::kValid);
}

TEST(FrameTest, EveryFlippedBitIsCorrupt) {
  const Frame good = MakeFrame();
  for (size_t bit = 0; bit < 8 * sizeof(FrameHeader); ++bit) {
    Frame frame = good;
    reinterpret_cast<unsigned char*>(&frame.header)[bit / 8] ^= 1u << (bit % 8);
    Status why;
    ASSERT_EQ(frame.Check(&why), FrameVerdict::kCorrupt) << "header bit " << bit;
    ASSERT_EQ(why.code(), gwDataCorrupt) << "header bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * good.payload.size(); ++bit) {
    Frame frame = good;
    frame.payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ASSERT_EQ(frame.Check(), FrameVerdict::kCorrupt) << "payload bit " << bit;
  }
}

struct Case {
  const char* name;
  std::function<void(Frame*)> damage;  // then the frame is sealed again
  FrameVerdict verdict;
  const char* field;  // named in the error, empty: none
};

class ResealedFrameTest : public testing::TestWithParam<Case> {};

// Checksums hold in each of these: the other rules must catch it.
TEST_P(ResealedFrameTest, GetsItsVerdict) {
  Frame frame = MakeFrame();
  GetParam().damage(&frame);
  SealFrame(&frame.header, frame.fragment());
  Status why;
  EXPECT_EQ(frame.Check(&why), GetParam().verdict);
  EXPECT_EQ(why.detail().field, GetParam().field) << why.ToString();
  EXPECT_EQ(frame.Check(nullptr), GetParam().verdict);
}

void Resize(Frame* frame, size_t bytes) {
  frame->payload.resize(bytes);
  frame->header.fragment_bytes = static_cast<uint32_t>(bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ResealedFrameTest,
    testing::Values(
        Case{"unchanged", [](Frame*) {}, FrameVerdict::kValid, ""},
        Case{"other_job", [](Frame* f) { f->header.job ^= 1; }, FrameVerdict::kStale, ""},
        Case{"earlier_epoch", [](Frame* f) { f->header.epoch = 6; }, FrameVerdict::kStale, ""},
        Case{"later_epoch", [](Frame* f) { f->header.epoch = 8; }, FrameVerdict::kCorrupt, "epoch"},
        Case{"magic", [](Frame* f) { f->header.magic = 0; }, FrameVerdict::kCorrupt, "magic"},
        Case{"version", [](Frame* f) { f->header.version = 2; }, FrameVerdict::kCorrupt, "version"},
        Case{"header_bytes", [](Frame* f) { f->header.header_bytes = 60; }, FrameVerdict::kCorrupt,
             "header bytes"},
        Case{"source", [](Frame* f) { f->header.src = 4; }, FrameVerdict::kCorrupt, "source rank"},
        Case{"last_source", [](Frame* f) { f->header.src = 0; }, FrameVerdict::kValid, ""},
        Case{"flags", [](Frame* f) { f->header.flags = 4; }, FrameVerdict::kCorrupt, "flags"},
        Case{"point_to_point", [](Frame* f) { f->header.flags = kFramePointToPoint; },
             FrameVerdict::kValid, ""},
        Case{"offset", [](Frame* f) { f->header.offset = 100; }, FrameVerdict::kCorrupt, "offset"},
        Case{"past_message", [](Frame* f) { f->header.message_bytes = 255; },
             FrameVerdict::kCorrupt, "end of fragment"},
        Case{"ends_message", [](Frame* f) { f->header.message_bytes = 256; }, FrameVerdict::kValid,
             ""},
        Case{"wraps", [](Frame* f) { f->header.offset = 0xFFFFFFC0; }, FrameVerdict::kCorrupt,
             "end of fragment"},
        Case{"too_large", [](Frame* f) { f->header.message_bytes = 4097; }, FrameVerdict::kCorrupt,
             "message bytes"},
        Case{"largest", [](Frame* f) { f->header.message_bytes = 4096; }, FrameVerdict::kValid, ""},
        Case{"length", [](Frame* f) { f->header.fragment_bytes = 64; }, FrameVerdict::kCorrupt,
             "fragment bytes"},
        Case{"moves_nothing", [](Frame* f) { Resize(f, 0); }, FrameVerdict::kCorrupt,
             "fragment bytes"},
        Case{"ends_askew", [](Frame* f) { Resize(f, 100); }, FrameVerdict::kCorrupt,
             "end of fragment"},
        Case{"short_last", [](Frame* f) { Resize(f, 172); }, FrameVerdict::kValid, ""}),
    [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

TEST(FrameTest, ErrorNamesThePeerOnceTheHeaderIsBelieved) {
  Frame frame = MakeFrame();
  frame.payload[5] ^= std::byte{4};
  Status why;
  EXPECT_EQ(frame.Check(&why), FrameVerdict::kCorrupt);
  EXPECT_EQ(why.detail().peer, 3);
  EXPECT_EQ(why.detail().field, "fragment checksum");

  frame.header.src = 1;  // the header's own checksum is wrong now: its source is no evidence
  EXPECT_EQ(frame.Check(&why), FrameVerdict::kCorrupt);
  EXPECT_EQ(why.detail().peer, -1);
}

// Fragments that stay in one host's memory may go without a checksum, where the receiver knows that
// they do.
TEST(FrameTest, FragmentChecksumIsLeftOutWithinAHostOnly) {
  Frame frame = MakeFrame();
  frame.header.flags = kFrameNoFragmentCrc;
  SealFrame(&frame.header, frame.fragment());
  EXPECT_EQ(frame.header.fragment_crc, 0u);
  Status why;
  EXPECT_EQ(frame.Check(&why), FrameVerdict::kCorrupt);
  EXPECT_EQ(why.detail().field, "flags");

  FrameExpectation within = kExpected;
  within.within_host = true;
  EXPECT_EQ(CheckFrame(frame.header, frame.fragment(), within, nullptr), FrameVerdict::kValid);
  EXPECT_EQ(CheckFrame(MakeFrame().header, frame.fragment(), within, nullptr),
            FrameVerdict::kValid);
  Frame damaged = MakeFrame();  // one that has a checksum is held to it
  damaged.payload[0] ^= std::byte{1};
  EXPECT_EQ(CheckFrame(damaged.header, damaged.fragment(), within, nullptr),
            FrameVerdict::kCorrupt);
  frame.header.fragment_crc = 1;
  EXPECT_EQ(CheckFrame(frame.header, frame.fragment(), within, nullptr), FrameVerdict::kCorrupt);
}

// A job's leftovers must not become errors, however damaged their payload.
TEST(FrameTest, StaleComesBeforeTheContent) {
  Frame frame = MakeFrame();
  frame.header.epoch = 1;
  SealFrame(&frame.header, frame.fragment());
  frame.payload[0] ^= std::byte{1};
  EXPECT_EQ(frame.Check(), FrameVerdict::kStale);
}

}  // namespace
}  // namespace gradwire
