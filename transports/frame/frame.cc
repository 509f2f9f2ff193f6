#include "transports/frame/frame.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/crc.h"

namespace gradwire {
namespace {

constexpr int64_t kChecksummedBytes = sizeof(FrameHeader) - sizeof(FrameHeader::header_crc);
constexpr uint32_t kOffsetAlign = 64;

// The first thing that is wrong with a frame.
struct Fault {
  const char* field = "";
  std::string expected, actual;
};

Fault Differs(const char* field, uint64_t expected, uint64_t actual) {
  return {field, fmt::format("{:#x}", expected), fmt::format("{:#x}", actual)};
}

Fault Exceeds(const char* field, uint64_t bound, uint64_t actual) {
  return {field, fmt::format("at most {}", bound), fmt::format("{}", actual)};
}

uint32_t HeaderCrc(const FrameHeader& header) { return Crc32c(&header, kChecksummedBytes); }

std::optional<Fault> CheckFormat(const FrameHeader& h) {
  if (h.magic != kFrameMagic) return Differs("magic", kFrameMagic, h.magic);
  if (h.version != kFrameVersion) return Differs("version", kFrameVersion, h.version);
  if (h.header_bytes != sizeof h) return Differs("header bytes", sizeof h, h.header_bytes);
  if (const uint32_t crc = HeaderCrc(h); crc != h.header_crc) {
    return Differs("header checksum", crc, h.header_crc);
  }
  return std::nullopt;
}

// Sizes are added in 64 bits: three 32-bit numbers from the wire cannot wrap there.
std::optional<Fault> CheckSizes(const FrameHeader& h, ConstBytes fragment,
                                const FrameExpectation& expected) {
  const uint64_t bound = expected.max_message_bytes < 0 ? 0 : expected.max_message_bytes;
  const uint64_t end = uint64_t{h.offset} + h.fragment_bytes;
  if (h.fragment_bytes != static_cast<uint64_t>(fragment.size)) {
    return Differs("fragment bytes", fragment.size, h.fragment_bytes);
  }
  if (h.offset % kOffsetAlign != 0)
    return Fault{"offset", "a multiple of 64", std::to_string(h.offset)};
  if (h.message_bytes > bound) return Exceeds("message bytes", bound, h.message_bytes);
  if (end > h.message_bytes) return Exceeds("end of fragment", h.message_bytes, end);
  // A fragment that moves nothing could come for ever, and one that ends askew has no lawful
  // successor.
  if (h.fragment_bytes == 0 && h.message_bytes != 0)
    return Fault{"fragment bytes", "more than 0", "0"};
  if (end != h.message_bytes && end % kOffsetAlign != 0) {
    return Fault{"end of fragment", "a multiple of 64 or the message's end", std::to_string(end)};
  }
  return std::nullopt;
}

std::optional<Fault> CheckContent(const FrameHeader& h, ConstBytes fragment,
                                  const FrameExpectation& expected) {
  if (h.epoch > expected.epoch) return Exceeds("epoch", expected.epoch, h.epoch);
  if (h.src >= expected.world_size) return Exceeds("source rank", expected.world_size - 1, h.src);
  if (h.flags & ~kFrameFlags) return Differs("flags", h.flags & kFrameFlags, h.flags);
  if (std::optional<Fault> fault = CheckSizes(h, fragment, expected)) return fault;
  if ((h.flags & kFrameNoFragmentCrc) != 0) {
    if (!expected.within_host) return Differs("flags", h.flags & ~kFrameNoFragmentCrc, h.flags);
    return std::nullopt;
  }
  if (const uint32_t crc = Crc32c(fragment.data, fragment.size); crc != h.fragment_crc) {
    return Differs("fragment checksum", crc, h.fragment_crc);
  }
  return std::nullopt;
}

FrameVerdict Corrupt(const Fault& fault, int src, Status* why) {
  if (why == nullptr) return FrameVerdict::kCorrupt;
  *why = Status(gwDataCorrupt,
                ErrorDetail{.message = fmt::format("a frame arrived with a wrong {}", fault.field),
                            .hint = "Look for a faulty link, network card or memory",
                            .peer = src,
                            .field = fault.field,
                            .expected = fault.expected + " (expected)",
                            .actual = fault.actual + " (arrived)"});
  return FrameVerdict::kCorrupt;
}

}  // namespace

void SealFrame(FrameHeader* header, ConstBytes fragment) {
  const bool unchecked = (header->flags & kFrameNoFragmentCrc) != 0;
  header->fragment_crc = unchecked ? 0 : Crc32c(fragment.data, fragment.size);
  header->header_crc = HeaderCrc(*header);
}

FrameVerdict CheckFrame(const FrameHeader& header, ConstBytes fragment,
                        const FrameExpectation& expected, Status* why) {
  // Nothing in a header is believed before its checksum: a flipped job would pass as stale.
  if (std::optional<Fault> fault = CheckFormat(header)) return Corrupt(*fault, -1, why);
  if (header.job != expected.job || header.epoch < expected.epoch) return FrameVerdict::kStale;
  if (std::optional<Fault> fault = CheckContent(header, fragment, expected))
    return Corrupt(*fault, header.src, why);
  return FrameVerdict::kValid;
}

}  // namespace gradwire
