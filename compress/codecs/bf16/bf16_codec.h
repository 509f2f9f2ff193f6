// Codec `bf16`: every element as bfloat16, rounded to nearest.
#ifndef GRADWIRE_COMPRESS_CODECS_BF16_BF16_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_BF16_BF16_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// Contractive (all but subnormal values keep a relative error of at most 2^-8), so feedback=on is
// sound. A finite element that would round to infinity counts as non-finite.
CodecRow Bf16Row();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_BF16_BF16_CODEC_H_
