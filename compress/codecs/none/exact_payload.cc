#include "compress/codecs/none/exact_payload.h"

#include "compress/codecs/cast_codec.h"

namespace gradwire {

const PayloadCodec* ExactPayload(DType wire) {
  constexpr CodecTraits kTraits = {.unbiased = true, .contractive = true, .lossless = true};
  static const CastCodec floats(DType::kFloat32, kTraits), halves(DType::kFloat16, kTraits),
      bfloats(DType::kBfloat16, kTraits);
  if (wire == DType::kFloat16) return &halves;
  return wire == DType::kBfloat16 ? &bfloats : &floats;
}

}  // namespace gradwire
