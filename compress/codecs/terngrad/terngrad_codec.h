// Codec `terngrad`: -1, 0 or 1 under one scale per block that all ranks share (Wen et al., NeurIPS
// 2017).
#ifndef GRADWIRE_COMPRESS_CODECS_TERNGRAD_TERNGRAD_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_TERNGRAD_TERNGRAD_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// Values are clipped to `clip` root mean squares of their block (1 to 18; 0: not at all), then
// rounded stochastically. The root mean square stands in for the paper's deviation about the mean:
// the same where the mean is near zero, and not zero where all values of a block are equal.
CodecRow TerngradRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TERNGRAD_TERNGRAD_CODEC_H_
