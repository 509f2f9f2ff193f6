// How long slices are where nobody chose.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_SLICE_SIZE_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_SLICE_SIZE_H_

#include <cstdint>

#include "base/dtype.h"
#include "compress/payload_codec.h"

namespace gradwire {

struct SliceSize {
  int64_t elems = 0;       // no slice has more
  int64_t wire_bytes = 0;  // what one aims at; 0: `elems` always

  int64_t ElemsFor(double wire_bytes_per_elem) const;
};

// Long slices amortise what each of them costs. Short ones leave less of an operation's end without
// another slice that fills the link while a rank waits for the next round, and on one host stay in
// its caches. docs/performance.md has the figures.
SliceSize DefaultSliceSize(bool one_host);

// Of a rank's whole contribution. Null, or lossless: the elements themselves. (What an exact sum
// sends along of a residual, once, is float32 and makes that longer.)
double WireBytesPerElem(const PayloadCodec* codec, DType dtype);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_SLICE_SIZE_H_
