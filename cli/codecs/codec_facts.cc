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

struct Reduction {
  std::string reduce_class, reduces_as;
};

// What the ranks tell each other, in this step or in those before, to know what to sum.
bool NeedsAgreement(const CarrierMethod& method, int ranks) {
  return method.rounds() > 1 || method.ReplicatedBytes(Sample(), ranks) > 0;
}

Reduction ReductionOf(const Codec& codec, int ranks) {
  if (codec.carrier == nullptr) return {"R4", "payload"};
  const CarrierMethod& method = *codec.carrier;
  if (method.Gathers()) return {"R5", "payload"};
  const RoundSpec last = method.Round(method.rounds() - 1, Sample(), ranks, {}, {});
  if (!IsFloat(last.dtype)) return {"R2", "sum of integers"};
  if (method.unit() == CarrierUnit::kElementwise) return {"R0", "sum"};
  // Of values at the same indices everywhere, or in the same basis.
  return {NeedsAgreement(method, ranks) ? "R1" : "R0", "sum where agreed"};
}

// Why so many ranks cannot use it; empty: they can.
std::string RefusalOf(const Codec& codec, int ranks) {
  return codec.Check(Sample(), ranks).detail().message;
}

}  // namespace

std::vector<CodecFacts> ListCodecFacts(int ranks) {
  std::vector<CodecFacts> all;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.ShownSpecs()) {
      const Codec codec = *MakeCodec(spec);
      const CodecTraits& traits = codec.carrier ? codec.carrier->traits() : codec.payload->traits();
      const Reduction reduction = ReductionOf(codec, ranks);
      all.push_back({.spec = spec,
                     .scheme = SchemeOf(codec),
                     .reduce_class = reduction.reduce_class,
                     .reduces_as = reduction.reduces_as,
                     .refused = RefusalOf(codec, ranks),
                     .bits_per_elem = BitsPerElem(codec, ranks),
                     .unbiased = traits.unbiased,
                     .feedback = codec.feedback == Feedback::kOn,
                     .advice = row.AdviceFor(codec)});
    }
  }
  return all;
}

}  // namespace gradwire
