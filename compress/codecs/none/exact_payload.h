// Elements as they are, where a scheme wants a payload.
#ifndef GRADWIRE_COMPRESS_CODECS_NONE_EXACT_PAYLOAD_H_
#define GRADWIRE_COMPRESS_CODECS_NONE_EXACT_PAYLOAD_H_

#include "base/dtype.h"
#include "compress/payload_codec.h"

namespace gradwire {

// `wire`: float32, or the type of gradients without a residual and a scale. Lives for ever.
const PayloadCodec* ExactPayload(DType wire);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_NONE_EXACT_PAYLOAD_H_
