// The carrier of `none`: the gradient itself, or gradient plus residual where a codec before has
// kept something back.
#ifndef GRADWIRE_COMPRESS_CODECS_NONE_NONE_CARRIER_H_
#define GRADWIRE_COMPRESS_CODECS_NONE_NONE_CARRIER_H_

#include <memory>

#include "compress/carrier_method.h"

namespace gradwire {

// One round, element-wise, exact. Without a residual the carrier has the gradient's type and
// nothing is scaled on the way in; with one it is float32, holds fl(grad * in_scale) + e,
// and nothing is kept back.
std::shared_ptr<const CarrierMethod> MakeNoneCarrier();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_NONE_NONE_CARRIER_H_
