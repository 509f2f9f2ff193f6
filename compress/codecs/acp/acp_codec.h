// Codec `acp`: the two factors of a gradient matrix, one in each step (ACP-SGD, Zhang et al., ICDCS
// 2023).
#ifndef GRADWIRE_COMPRESS_CODECS_ACP_ACP_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_ACP_ACP_CODEC_H_

#include "base/status.h"
#include "compress/registry.h"

namespace gradwire {

// One round: the sum of P = M Q, for an orthonormal Q from the step before; in the next step the
// sum of Q = M^T P, for the P of this one made orthonormal; and so on. Whole tensors only; see
// LowRankCarrier::Check.
//
// That a rank had no finite gradient the others learn in Absorb. Residuals are then e_in again;
// those that are written in place are not written before.
StatusOr<Codec> MakeAcp(const SpecText& spec);
CodecRow AcpRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_ACP_ACP_CODEC_H_
