#include "collectives/schemes/slice_size.h"

#include <algorithm>
#include <bit>

namespace gradwire {
namespace {

constexpr int64_t kMostElems = int64_t{1} << 20;
constexpr int64_t kMostElemsOnHost = int64_t{1} << 18;
constexpr int64_t kWireBytes = 256 << 10;
constexpr int64_t kWireBytesOnHost = 512 << 10;
// Where a codec's headers and scales are a small part.
constexpr int64_t kSampleElems = int64_t{1} << 16;

}  // namespace

int64_t SliceSize::ElemsFor(double wire_bytes_per_elem) const {
  if (wire_bytes == 0) return elems;
  const double wanted = static_cast<double>(wire_bytes) / wire_bytes_per_elem;
  const double most = std::min(static_cast<double>(elems), wanted);
  const uint64_t power = std::bit_floor(static_cast<uint64_t>(most));
  return std::min(std::max(static_cast<int64_t>(power), kBlockElems), elems);
}

SliceSize DefaultSliceSize(bool one_host) {
  return one_host ? SliceSize{.elems = kMostElemsOnHost, .wire_bytes = kWireBytesOnHost}
                  : SliceSize{.elems = kMostElems, .wire_bytes = kWireBytes};
}

double WireBytesPerElem(const PayloadCodec* codec, DType dtype) {
  if (codec == nullptr || codec->traits().lossless) return static_cast<double>(SizeOf(dtype));
  return static_cast<double>(codec->MaxBytes(kSampleElems)) / kSampleElems;
}

}  // namespace gradwire
