// Codec `fp16`: every element as float16, rounded to nearest.
#ifndef GRADWIRE_COMPRESS_CODECS_FP16_FP16_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_FP16_FP16_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// Elements of 65520 and above become infinite and count as non-finite; below 2^-25 they are lost.
// So it is no contraction, and feedback=on is refused.
CodecRow Fp16Row();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_FP16_FP16_CODEC_H_
