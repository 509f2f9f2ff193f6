// The implementations behind Crc32c, for crc.cc and its test. Contract as in crc.h.
#ifndef GRADWIRE_BASE_CRC_INTERNAL_H_
#define GRADWIRE_BASE_CRC_INTERNAL_H_

#include <cstdint>

namespace gradwire::crc_internal {

inline constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected: bit 31 is the coefficient of x^0

// Slice by 8: the specification for the others, on every processor.
uint32_t Portable(const void* data, int64_t bytes, uint32_t seed);

// Whether this processor can run Hardware.
bool HasHardware();

// By the CRC32 instruction of SSE 4.2. Only where HasHardware.
uint32_t Hardware(const void* data, int64_t bytes, uint32_t seed);

}  // namespace gradwire::crc_internal

#endif  // GRADWIRE_BASE_CRC_INTERNAL_H_
