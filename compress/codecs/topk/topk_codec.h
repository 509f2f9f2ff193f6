// Codec `topk`: the largest elements, by one of three agreements on which these are.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// agreement=speakers, a carrier: of n ranks min(n, 8) speak, in turns that are counted. Each names
// its exact `quota` largest, and the union of what they name is summed. The quota, equal on all
// ranks, follows how far speakers agree, so that the union stays near density * elems.
//
// agreement=owners, a payload: topk_payload.h. agreement=gather, a carrier: topk_gather.h.
//
// All need feedback.
CodecRow TopkRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
