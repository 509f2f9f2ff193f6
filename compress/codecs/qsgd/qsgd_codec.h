// Codec `qsgd`: levels of `bits` bits under one scale per block (Alistarh et al., NeurIPS 2017),
// with the maximum norm, which has the smaller error at a fixed width.
#ifndef GRADWIRE_COMPRESS_CODECS_QSGD_QSGD_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_QSGD_QSGD_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// feedback=off rounds stochastically: unbiased to 2^-17 of a level. feedback=on rounds to nearest,
// ties to even: a contraction with delta >= 1 / block.
CodecRow QsgdRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_QSGD_QSGD_CODEC_H_
