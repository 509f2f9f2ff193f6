#include "compress/codecs/terngrad/terngrad_codec.h"

#include <memory>

#include "compress/codecs/level_carrier.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr int kTernaryBits = 2;
// The paper's; the least, below which all of a block whose values are alike would be clipped; and
// one beyond which nothing is: one element of a block of 320, the longest at any number of ranks,
// is at most 17.9 times the block's root mean square.
constexpr double kDefaultClip = 2.5, kMinClip = 1, kMaxClip = 18;

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const double clip = args.RealOrZero("clip", kDefaultClip, kMinClip, kMaxClip);
  const Feedback feedback = args.ReadFeedback(Feedback::kOff);
  if (!args.status().ok()) return args.status();
  return Codec{.spec = args.canonical(),
               .feedback = feedback,
               .carrier = std::make_shared<LevelCarrier>(
                   LevelCarrier::Options{.bits = kTernaryBits, .clip = static_cast<float>(clip)}),
               .min_numel = kMinNumelOfTensors};
}

}  // namespace

CodecRow TerngradRow() {
  return {
      .name = "terngrad",
      .doc =
          "-1, 0 or 1 per block scale shared by all ranks, variance scale * |x| - x^2, "
          "32 / floor(32 / w) bits per element with w = ceil(log2(2 ranks + 1)); TernGrad, Wen et "
          "al. 2017",
      .keys = {"clip"},
      .conformance_specs = {"terngrad", "terngrad(clip=0)"},
      .advice = {.note = "noise about as large as the gradient: mind the last percent"},
      .make = Make};
}

}  // namespace gradwire
