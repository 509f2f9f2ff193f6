#include "compress/codecs/qsgd/qsgd_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/codecs/level_carrier.h"
#include "compress/kernels/qsgd/qsgd_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class QsgdCodec final : public CpuCodec {
 public:
  explicit QsgdCodec(const QsgdShape& shape) : shape_(shape) {
    traits_.stochastic = shape.rounding == Rounding::kStochastic;
    traits_.unbiased = traits_.stochastic;
    if (traits_.stochastic) traits_.levels = (1 << (shape.bits - 1)) - 1;
    traits_.contractive = shape.rounding == Rounding::kNearest;
    traits_.quantum_elems = shape.block;
  }

  const CodecTraits& traits() const override { return traits_; }
  int64_t MaxBytes(int64_t elems) const override { return QsgdBytes(shape_, elems); }

 private:
  void RunEncode(const EncodeJob& job) const override { ActiveQsgdKernels().encode(shape_, job); }
  bool RunDecode(const DecodeJob& job) const override {
    return ActiveQsgdKernels().decode(shape_, job);
  }

  QsgdShape shape_;
  CodecTraits traits_;
};

// With feedback an error that is zero on average is not wanted, but the smallest one.
Rounding RoundingFor(Feedback feedback) {
  return feedback == Feedback::kOn ? Rounding::kNearest : Rounding::kStochastic;
}

// The number of ranks decides the width of the lanes, and so the block.
Codec MakeCarrier(SpecArgs* args, int bits) {
  args->Refuse("block", "No block with sum=carrier: it follows from the number of ranks");
  const Feedback feedback = args->ReadFeedback(Feedback::kOff);
  return {.spec = args->canonical(),
          .feedback = feedback,
          .carrier = std::make_shared<LevelCarrier>(
              LevelCarrier::Options{.bits = bits, .rounding = RoundingFor(feedback)}),
          .min_numel = kMinNumelOfTensors};
}

Codec MakePayload(SpecArgs* args, int bits) {
  QsgdShape shape{.bits = bits, .block = 0, .rounding = Rounding::kNearest};
  shape.block = args->Int("block", kBlockElems,
                          {.min = kRunElems, .max = kQsgdMaxBlock, .multiple_of = kRunElems});
  const Feedback feedback = args->ReadFeedback(Feedback::kOff);
  shape.rounding = RoundingFor(feedback);
  return {.spec = args->canonical(),
          .feedback = feedback,
          .payload = std::make_shared<QsgdCodec>(shape)};
}

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const auto bits =
      static_cast<int>(args.Int("bits", 8, {.min = kQsgdMinBits, .max = kQsgdMaxBits}));
  args.Choice("norm", {"max"});
  const bool carrier = args.Choice("sum", {"owner", "carrier"}) == "carrier";
  Codec codec = carrier ? MakeCarrier(&args, bits) : MakePayload(&args, bits);
  if (!args.status().ok()) return args.status();
  return codec;
}

// Trainings with feedback were of 4 bits. Of normal values 2 bits keep back 8.1 times the energy of
// a gradient, efsign 1.1 times, powersgd(rank=4) 4.1 times (laws_feedback_test).
constexpr int kLeastMeasuredBits = 4;

OptimizerAdvice Advise(const SpecText& spec) {
  SpecArgs args(spec);
  const int64_t bits = args.Int("bits", kQsgdMaxBits, {.min = kQsgdMinBits, .max = kQsgdMaxBits});
  const bool feedback = args.ReadFeedback(Feedback::kOff) == Feedback::kOn;
  if (!feedback || bits >= kLeastMeasuredBits) return {};
  return {.momentum = false,
          .adam = false,
          .note =
              "not measured in training: may keep back more than efsign does, which is not safe "
              "with either; bits=4 is"};
}

}  // namespace

CodecRow QsgdRow() {
  return {
      .name = "qsgd",
      .doc =
          "stochastic levels per block, variance at most (scale / levels)^2 / 4 per element, "
          "bits + 32 / block bits per element, with sum=carrier 32 / floor(32 / w) for w = "
          "ceil(log2(2 ranks levels + 1)); QSGD, Alistarh et al. 2017",
      .keys = {"bits", "block", "norm", "sum"},
      .conformance_specs = {"qsgd(bits=2)", "qsgd(bits=3)", "qsgd(bits=4)", "qsgd(bits=5)",
                            "qsgd(bits=6)", "qsgd(bits=7)", "qsgd(bits=8)",
                            "qsgd(bits=4,block=768)", "qsgd(bits=2,feedback=on)",
                            "qsgd(bits=4,feedback=on)", "qsgd(bits=8,feedback=on)",
                            "qsgd(bits=5,block=512,feedback=on)", "qsgd(bits=2,sum=carrier)",
                            "qsgd(bits=4,sum=carrier)", "qsgd(bits=8,sum=carrier)",
                            "qsgd(bits=4,sum=carrier,feedback=on)"},
      .shown_specs = {"qsgd(bits=8)", "qsgd(bits=6)", "qsgd(bits=4)", "qsgd(bits=4,feedback=on)",
                      "qsgd(bits=2,feedback=on)", "qsgd(bits=8,sum=carrier)",
                      "qsgd(bits=4,sum=carrier)", "qsgd(bits=4,sum=carrier,feedback=on)"},
      .advise = Advise,
      .make = Make};
}

}  // namespace gradwire
