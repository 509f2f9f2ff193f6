#include "compress/codecs/topk/topk_codec.h"

#include <memory>
#include <string>

#include "compress/codecs/sparse_carrier.h"
#include "compress/codecs/topk/topk_gather.h"
#include "compress/codecs/topk/topk_payload.h"
#include "compress/codecs/topk/topk_speakers.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr const char kGather[] = "gather";

StatusOr<std::shared_ptr<const PayloadCodec>> MakeOwners(double density) {
  if (density >= kTopkMinPayloadDensity) return MakeTopkPayload(density);
  return Status(gwInvalidArgument,
                "density=" + FormatReal(density) + " selects none of a block of " +
                    std::to_string(kTopkBlockElems) + " elements",
                "Accepted with agreement=owners: " + FormatReal(kTopkMinPayloadDensity) + " to " +
                    FormatReal(kMaxDensity));
}

TopkGatherOptions ReadGatherOptions(double density, const std::string& agreement, SpecArgs* args) {
  TopkGatherOptions options = {.density = density};
  if (agreement != kGather) {
    for (const char* key : {"momentum", "warmup"}) {
      args->Refuse(key, std::string("It goes with agreement=") + kGather);
    }
    return options;
  }
  options.momentum = static_cast<float>(args->Real("momentum", 0, 0, kMaxMomentum));
  options.warmup_steps = args->Int("warmup", 0, {.min = 0, .max = kMaxWarmupSteps});
  return options;
}

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const double density = args.Real("density", kDefaultDensity, kMinDensity, kMaxDensity);
  const std::string agreement = args.Choice("agreement", {"speakers", "owners", kGather});
  const TopkGatherOptions gather = ReadGatherOptions(density, agreement, &args);
  if (args.ReadFeedback(Feedback::kOn) == Feedback::kOff) {
    return Status(gwInvalidArgument, "topk does not accept feedback=off",
                  "Small elements would never be sent; randk(feedback=off) is unbiased");
  }
  if (!args.status().ok()) return args.status();
  Codec codec = {
      .spec = args.canonical(), .feedback = Feedback::kOn, .min_numel = kMinNumelOfTensors};
  if (agreement == "owners") {
    StatusOr<std::shared_ptr<const PayloadCodec>> payload = MakeOwners(density);
    if (!payload.ok()) return payload.status();
    codec.payload = *payload;
  } else if (agreement == kGather) {
    codec.carrier = MakeTopkGather(gather);
  } else {
    codec.carrier = MakeTopkSpeakers(density);
  }
  return codec;
}

}  // namespace

CodecRow TopkRow() {
  return {
      .name = "topk",
      .doc =
          "the elements that up to 8 ranks, in turn, find largest, about density * elements; "
          "error feedback, (32 + 2 + log2(ranks / density)) density bits per element, more where "
          "these agree; after ScaleCom, Chen et al. 2020; with agreement=owners each rank's "
          "largest, and of their sum the largest, (32 + 2 - log2(density)) density bits per "
          "element; with agreement=gather each rank's largest, of averages with momentum (Deep "
          "Gradient Compression, Lin et al. 2018), as many bits times half the ranks",
      .keys = {"density", "agreement", "momentum", "warmup"},
      .conformance_specs = {"topk(density=0.1)", "topk(density=0.5)",
                            "topk(density=0.1,agreement=owners)",
                            "topk(density=0.02,agreement=gather)",
                            "topk(density=0.02,agreement=gather,momentum=0.9,warmup=2)"},
      .shown_specs = {"topk(0.01)", "topk(0.01,agreement=owners)", "topk(0.01,agreement=gather)",
                      "topk(0.01,agreement=gather,momentum=0.9)"},
      .advice = {.momentum = false,
                 .adam = false,
                 .note = "momentum up to about 0.5, at 0.9 it lost 2 to 5 points of accuracy; none "
                         "beside momentum= of its own; Adam scales what is sent late by later "
                         "variances: 0.08 nats lost of 2.5"},
      .make = Make};
}

}  // namespace gradwire
