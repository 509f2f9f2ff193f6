// CheckFrame on any bytes: [how, 64 bytes of header, payload]. With how & 1 both checksums are made
// right first, so that what lies behind them is reached; with how & 2 the receiver accepts
// fragments without one.

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "transports/frame/frame.h"

namespace gradwire::fuzz {
namespace {

constexpr uint8_t kSeal = 1, kWithinHost = 2;  // of `how`

constexpr FrameExpectation kExpected = {
    .job = 0x1234, .epoch = 2, .world_size = 5, .max_message_bytes = 1 << 20};

void CheckValid(const FrameHeader& h, ConstBytes fragment) {
  const uint64_t end = uint64_t{h.offset} + h.fragment_bytes;
  FUZZ_CHECK(h.magic == kFrameMagic && h.version == kFrameVersion && h.header_bytes == 64);
  FUZZ_CHECK(h.job == kExpected.job && h.epoch == kExpected.epoch);
  FUZZ_CHECK(h.src < kExpected.world_size && (h.flags & ~kFrameFlags) == 0);
  FUZZ_CHECK(h.fragment_bytes == static_cast<uint64_t>(fragment.size));
  FUZZ_CHECK(h.offset % 64 == 0 && end <= h.message_bytes);
  FUZZ_CHECK(h.message_bytes <= static_cast<uint64_t>(kExpected.max_message_bytes));
  FUZZ_CHECK(end == h.message_bytes || (end % 64 == 0 && h.fragment_bytes > 0));
  FrameHeader sealed = h;
  SealFrame(&sealed, fragment);
  FUZZ_CHECK(std::memcmp(&sealed, &h, sizeof h) == 0);
}

void CheckOne(FrameHeader header, ConstBytes fragment, uint8_t how) {
  if (how & kSeal) SealFrame(&header, fragment);
  FrameExpectation expected = kExpected;
  expected.within_host = (how & kWithinHost) != 0;
  Status why;
  const FrameVerdict verdict = CheckFrame(header, fragment, expected, &why);
  FUZZ_CHECK(CheckFrame(header, fragment, expected, nullptr) == verdict);
  switch (verdict) {
    case FrameVerdict::kValid:
      CheckValid(header, fragment);
      FUZZ_CHECK(expected.within_host || !(header.flags & kFrameNoFragmentCrc));
      FUZZ_CHECK(why.ok());
      break;
    case FrameVerdict::kStale:
      FUZZ_CHECK(header.job != kExpected.job || header.epoch < kExpected.epoch);
      FUZZ_CHECK(why.ok());
      break;
    case FrameVerdict::kCorrupt:
      FUZZ_CHECK(why.code() == gwDataCorrupt && !why.detail().field.empty());
      break;
  }
}

struct Sizes {
  uint32_t offset, bytes, message_bytes;
};

Input MakeSeed(uint8_t how, Sizes sizes) {
  const auto [offset, bytes, message_bytes] = sizes;
  FrameHeader header = {.flags = static_cast<uint16_t>(how & kWithinHost ? kFrameNoFragmentCrc : 0),
                        .src = 4,
                        .epoch = kExpected.epoch,
                        .job = kExpected.job,
                        .offset = offset,
                        .message_bytes = message_bytes,
                        .fragment_bytes = bytes};
  const std::vector<std::byte> payload(bytes, std::byte{0x5A});
  SealFrame(&header, {payload.data(), bytes});
  Input input(1 + sizeof header + bytes);
  input[0] = how;
  std::memcpy(input.data() + 1, &header, sizeof header);
  if (bytes > 0) std::memcpy(input.data() + 1 + sizeof header, payload.data(), bytes);
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (uint8_t how = 0; how < 4; ++how) {
    for (Sizes sizes :
         {Sizes{0, 0, 0}, Sizes{0, 128, 4096}, Sizes{128, 64, 192}, Sizes{64, 1, 65}}) {
      seeds.push_back(MakeSeed(how, sizes));
    }
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  if (size == 0) return 0;
  FrameHeader header;
  const size_t header_bytes = std::min(size - 1, sizeof header);
  std::memcpy(&header, data + 1, header_bytes);
  const ConstBytes fragment(reinterpret_cast<const std::byte*>(data + 1 + header_bytes),
                            static_cast<int64_t>(size - 1 - header_bytes));
  fuzz::CheckOne(header, fragment, data[0]);
  return 0;
}
