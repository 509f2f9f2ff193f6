// Codec `intsgd`: integers under a scale that is known from the past (Mishchenko et al., ICLR
// 2022).
#ifndef GRADWIRE_COMPRESS_CODECS_INTSGD_INTSGD_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_INTSGD_INTSGD_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// All ranks round their elements at random to multiples of one unit, which all of them make of the
// sums of earlier steps, and add the multiples as int8 or int32. Only steps without such a past
// agree on the unit first.
CodecRow IntsgdRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_INTSGD_INTSGD_CODEC_H_
