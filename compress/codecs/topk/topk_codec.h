// Codec `topk`: the largest elements, by one of three agreements on which these are.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// agreement=speakers, a carrier: topk_speakers.h. agreement=owners, a payload: topk_payload.h.
// agreement=gather, a carrier: topk_gather.h.
//
// All need feedback.
CodecRow TopkRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
