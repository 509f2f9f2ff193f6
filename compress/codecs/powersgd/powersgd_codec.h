// Codec `powersgd`: a gradient matrix as the product of two thin factors (Vogels et al., NeurIPS
// 2019).
#ifndef GRADWIRE_COMPRESS_CODECS_POWERSGD_POWERSGD_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_POWERSGD_POWERSGD_CODEC_H_

#include "base/status.h"
#include "compress/registry.h"

namespace gradwire {

// Two rounds: the sum of P = M Q, made orthonormal by every rank alike, then the sum of Q = M^T P.
// The last Q is the start of the next step. Whole tensors only; see LowRankCarrier::Check.
StatusOr<Codec> MakePowerSgd(const SpecText& spec);
CodecRow PowersgdRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_POWERSGD_POWERSGD_CODEC_H_
