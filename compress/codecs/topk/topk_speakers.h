// Top-k by speakers (after ScaleCom, Chen et al. 2020): of n ranks min(n, 8) speak, in turns that
// are counted. Each names its exact `quota` largest, and the union of what they name is summed. The
// quota, equal on all ranks, follows how far speakers agree, so that the union stays near
// density * elems.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_SPEAKERS_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_SPEAKERS_H_

#include <memory>

#include "compress/carrier_method.h"

namespace gradwire {

std::shared_ptr<const CarrierMethod> MakeTopkSpeakers(double density);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_SPEAKERS_H_
