#include "cli/codecs/codec_facts.h"

#include <array>

#include "compress/contribution.h"

namespace gradwire {
namespace {

constexpr std::array<int64_t, 2> kShape = {1024, 1024};
constexpr int64_t kElems = kShape[0] * kShape[1];

TensorMeta Sample() { return {.shape = kShape, .elems = kElems, .dtype = DType::kFloat32}; }

double BitsPerElem(const Codec& codec, int ranks) {
  return 8.0 * static_cast<double>(ContributionBytes(codec, Sample(), ranks)) / kElems;
}

std::string SchemeOf(const Codec& codec) {
  if (codec.carrier == nullptr) return "two_shot";
  return codec.carrier->Gathers() ? "gather" : "linear";
}

std::string ReducesAs(const Codec& codec, int ranks) {
  if (codec.carrier == nullptr || codec.carrier->Gathers()) return "payload";
  const CarrierMethod& method = *codec.carrier;
  const RoundSpec last = method.Round(method.rounds() - 1, Sample(), ranks, {}, {});
  if (!IsFloat(last.dtype)) return "sum of integers";
  // Of values at agreed indices, or in an agreed basis.
  return method.unit() == CarrierUnit::kTensor ? "sum where agreed" : "sum";
}

}  // namespace

std::vector<CodecFacts> ListCodecFacts(int ranks) {
  std::vector<CodecFacts> all;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const Codec codec = *MakeCodec(spec);
      const CodecTraits& traits = codec.carrier ? codec.carrier->traits() : codec.payload->traits();
      all.push_back({.spec = spec,
                     .scheme = SchemeOf(codec),
                     .reduces_as = ReducesAs(codec, ranks),
                     .bits_per_elem = BitsPerElem(codec, ranks),
                     .unbiased = traits.unbiased,
                     .feedback = codec.feedback == Feedback::kOn,
                     .advice = row.advice});
    }
  }
  return all;
}

}  // namespace gradwire
