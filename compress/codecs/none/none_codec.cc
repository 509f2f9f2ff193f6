#include "compress/codecs/none/none_codec.h"

#include <memory>

#include "compress/codecs/cast_codec.h"
#include "compress/codecs/none/none_carrier.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    return Status(gwInvalidArgument, "none has no error to feed back", "Leave feedback=on out");
  }
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = spec.name,
      .payload = std::make_shared<CastCodec>(
          DType::kFloat32, CodecTraits{.unbiased = true, .contractive = true, .lossless = true}),
      .carrier = MakeNoneCarrier()};
}

}  // namespace

CodecRow NoneRow() {
  return {.name = "none",
          .doc = "exact: a sum in the gradients' type, 32 bits per float32",
          .keys = {},
          .conformance_specs = {"none"},
          .make = Make};
}

}  // namespace gradwire
