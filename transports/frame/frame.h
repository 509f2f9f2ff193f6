// The frame: 64 bytes of header before every fragment, the same on every transport.
// docs/wire_format.md is the specification. Little endian; gradwire runs on little-endian hosts
// only.
#ifndef GRADWIRE_TRANSPORTS_FRAME_FRAME_H_
#define GRADWIRE_TRANSPORTS_FRAME_FRAME_H_

#include <bit>
#include <cstdint>

#include "base/status.h"
#include "base/view.h"

namespace gradwire {

static_assert(std::endian::native == std::endian::little, "the wire format is little endian");

inline constexpr uint32_t kFrameMagic = 0x31575747;  // "GWW1"
inline constexpr uint8_t kFrameVersion = 1;

// Bits of FrameHeader::flags.
enum FrameFlag : uint16_t {
  kFramePointToPoint = 1,   // op_seq counts per ordered pair of ranks
  kFrameNoFragmentCrc = 2,  // the fragment never leaves the host's memory; fragment_crc is 0
};
inline constexpr uint16_t kFrameFlags =
    kFramePointToPoint | kFrameNoFragmentCrc;  // all that exist; any other bit is corrupt

// The header as it lies on the wire.
struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  uint8_t header_bytes = 64;
  uint16_t turn = 0;            // RESULTs received in this epoch, mod 2^16
  uint16_t flags = 0;           // FrameFlag bits
  uint16_t src = 0;             // sending rank
  uint32_t epoch = 0;           // generation of the communicator's membership
  uint64_t job = 0;             // one per communicator
  uint32_t op_seq = 0;          // number of the operation within its turn
  uint32_t slice = 0;           // of the operation
  uint32_t message = 0;         // of the schedule; the run's number in the top 8 bits
  uint32_t offset = 0;          // of this fragment in its message, a multiple of 64
  uint32_t message_bytes = 0;   // whole message; 0: the message is this bare header
  uint32_t fragment_bytes = 0;  // payload behind this header
  uint64_t signature = 0;       // of the operation: equal on all ranks or gwMismatch
  uint32_t fragment_crc = 0;    // CRC32C of the payload
  uint32_t header_crc = 0;      // CRC32C of the 60 bytes before
};
static_assert(sizeof(FrameHeader) == 64);

// What a receiver knows before a frame arrives.
struct FrameExpectation {
  uint64_t job = 0;
  uint32_t epoch = 0;
  int world_size = 0;
  int64_t max_message_bytes = 0;
  bool within_host = false;  // fragments without a checksum are accepted
};

enum class FrameVerdict {
  kValid,
  kStale,    // an earlier epoch or another job's leftovers: drop and count
  kCorrupt,  // damaged or forged: revoke
};

// Fills in both checksums. `fragment` is what will travel behind the header; host memory, one pass
// over it.
void SealFrame(FrameHeader* header, ConstBytes fragment);

// Checks everything that needs no operation: magic, version, header checksum, job, epoch, source,
// flags, sizes (docs/wire_format.md, section Frames), and last the fragment's checksum: one pass
// over it. Never reads outside the views; any bytes whatever give a verdict. Allocates for kCorrupt
// only. `why` (may be null) receives the reason of kCorrupt, naming the field and, where the
// header's own checksum holds, the peer; else it is left alone.
FrameVerdict CheckFrame(const FrameHeader& header, ConstBytes fragment,
                        const FrameExpectation& expected, Status* why);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_FRAME_FRAME_H_
