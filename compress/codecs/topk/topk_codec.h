// Codec `topk`: the elements that a few ranks, the speakers, find largest, on all ranks.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// Of n ranks min(n, 8) speak, in turns that are counted. Each names its exact `quota` largest, and
// the union of what they name is summed. The quota, equal on all ranks, follows how far speakers
// agree, so that the union stays near density * elems. Needs feedback.
CodecRow TopkRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_CODEC_H_
