// Codec `signsgd`: the majority of the ranks' signs (Bernstein et al., ICML 2018).
#ifndef GRADWIRE_COMPRESS_CODECS_SIGNSGD_SIGNSGD_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_SIGNSGD_SIGNSGD_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// Each rank votes the sign of each element, 0 for a zero. The sum is the majority times the number
// of ranks, so that the average is -1, 0 (a tie) or 1, times the loss scale. It does not estimate
// the sum of the gradients, and what a vote leaves is no error to feed back.
CodecRow SignsgdRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_SIGNSGD_SIGNSGD_CODEC_H_
