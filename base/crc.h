// CRC32C (Castagnoli polynomial 0x1EDC6F41, reflected, as in iSCSI, RFC 3720): the checksum of
// frames and files.
#ifndef GRADWIRE_BASE_CRC_H_
#define GRADWIRE_BASE_CRC_H_

#include <cstdint>

namespace gradwire {

// The CRC32C of `bytes` bytes of host memory at `data`, any alignment. `seed` is the checksum of
// what comes before, so Crc32c(b, bytes_b, Crc32c(a, bytes_a)) is the checksum of a followed by b.
// `data` may be null when `bytes` is 0; negative counts as 0. Any thread. Uses the processor's CRC
// instruction where it has one; the value is the same without. Cost on an EPYC of 2024, 64 KiB: 32
// GB/s with the instruction, 2 GB/s without.
uint32_t Crc32c(const void* data, int64_t bytes, uint32_t seed = 0);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_CRC_H_
