#include "compress/codecs/fp16/fp16_codec.h"

#include <memory>

#include "compress/codecs/cast_codec.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    // It loses what is below 2^-25 and what is above 65504: no contraction.
    return Status(gwInvalidArgument, "fp16 does not accept feedback=on",
                  "Use bf16(feedback=on), whose range is that of float32");
  }
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = spec.name,
      .payload = std::make_shared<CastCodec>(DType::kFloat16, CodecTraits{.narrow_range = true})};
}

}  // namespace

CodecRow Fp16Row() {
  return {.name = "fp16",
          .doc =
              "round to nearest float16, relative error at most 2^-11 between 2^-14 and 65504, 16 "
              "bits per "
              "element",
          .keys = {},
          .conformance_specs = {"fp16"},
          .advice = {.amp = false,
                     .note = "sums of scaled gradients may pass 65504: use bf16 with AMP"},
          .make = Make};
}

}  // namespace gradwire
