#include "compress/codecs/bf16/bf16_codec.h"

#include <memory>

#include "compress/codecs/cast_codec.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const Feedback feedback = args.ReadFeedback(Feedback::kOff);
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = args.canonical(),
      .feedback = feedback,
      .payload = std::make_shared<CastCodec>(DType::kBfloat16, CodecTraits{.contractive = true})};
}

}  // namespace

CodecRow Bf16Row() {
  return {.name = "bf16",
          .doc = "round to nearest bfloat16, relative error at most 2^-8, 16 bits per element",
          .keys = {},
          .conformance_specs = {"bf16", "bf16(feedback=on)"},
          .make = Make};
}

}  // namespace gradwire
