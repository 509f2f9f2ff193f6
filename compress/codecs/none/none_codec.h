// Codec `none`: every element as float32.
#ifndef GRADWIRE_COMPRESS_CODECS_NONE_NONE_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_NONE_NONE_CODEC_H_

#include "compress/registry.h"

namespace gradwire {

// The payload is float32 whatever the gradient's type is: the sum of a gradient and its residual
// needs it, and the size must follow from the element count alone. Exact for finite values.
CodecRow NoneRow();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_NONE_NONE_CODEC_H_
