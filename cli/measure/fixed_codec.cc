#include "cli/measure/fixed_codec.h"

#include "runtime/spec/auto_spec.h"

namespace gradwire {

StatusOr<Codec> MakeFixedCodec(const std::string& spec) {
  if (!IsAutoSpec(spec)) return MakeCodec(spec);
  return Status(
      gwInvalidArgument, "auto chooses codecs for registered tensors in training steps",
      "Give one that it chooses from, as qsgd(bits=8), or measure it with `gradwire train "
      "-x auto`");
}

}  // namespace gradwire
