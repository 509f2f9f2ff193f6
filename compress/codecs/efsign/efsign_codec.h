// Codec `efsign`: signs under the l1 mean of their block (Karimireddy et al., ICML 2019).
#ifndef GRADWIRE_COMPRESS_CODECS_EFSIGN_EFSIGN_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_EFSIGN_EFSIGN_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// A contraction with delta = |p|_1^2 / (d |p|_2^2) per block, at least 1 / 256; biased, so feedback
// is always on.
CodecRow EfsignRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_EFSIGN_EFSIGN_CODEC_H_
