// Spec strings from any text: an error that is invalid-argument and has a message, or a codec whose
// canonical text makes the same codec.

#include <string>
#include <string_view>

#include "compress/registry.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (std::string_view text :
       {"none", "bf16(feedback=on)", "qsgd(4)", "qsgd(bits=4, block=512, norm=max, feedback=off)",
        "efsign(min_numel=1024,exclude=\"*.bias,norm*\")"}) {
    seeds.emplace_back(text.begin(), text.end());
  }
  return seeds;
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  const std::string text(data, data + size);
  const StatusOr<Codec> codec = MakeCodec(text);
  if (!codec.ok()) {
    FUZZ_CHECK(codec.status().code() == gwInvalidArgument);
    FUZZ_CHECK(!codec.status().detail().message.empty());
    return 0;
  }
  const StatusOr<Codec> again = MakeCodec(codec->spec);
  FUZZ_CHECK(again.ok() && again->spec == codec->spec);
  FUZZ_CHECK(again->min_numel == codec->min_numel && again->exclude == codec->exclude);
  return 0;
}
