#include "compress/codecs/qsgd/qsgd_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/kernels/qsgd/qsgd_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class QsgdCodec final : public CpuCodec {
 public:
  explicit QsgdCodec(const QsgdShape& shape) : shape_(shape) {
    traits_.unbiased = shape.rounding == Rounding::kStochastic;
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

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  QsgdShape shape{};
  shape.bits = static_cast<int>(args.Int("bits", 8, {.min = kQsgdMinBits, .max = kQsgdMaxBits}));
  shape.block = args.Int("block", kBlockElems,
                         {.min = kRunElems, .max = kQsgdMaxBlock, .multiple_of = kRunElems});
  args.Choice("norm", {"max"});
  const Feedback feedback = args.ReadFeedback(Feedback::kOff);
  if (!args.status().ok()) return args.status();
  shape.rounding = feedback == Feedback::kOn ? Rounding::kNearest : Rounding::kStochastic;
  return Codec{.spec = args.canonical(),
               .feedback = feedback,
               .payload = std::make_shared<QsgdCodec>(shape)};
}

}  // namespace

CodecRow QsgdRow() {
  return {.name = "qsgd",
          .doc =
              "stochastic levels per block, variance at most (scale / levels)^2 / 4 per element, "
              "bits + 32 / block bits per element; QSGD, Alistarh et al. 2017",
          .keys = {"bits", "block", "norm"},
          .conformance_specs = {"qsgd(bits=2)", "qsgd(bits=3)", "qsgd(bits=4)", "qsgd(bits=5)",
                                "qsgd(bits=6)", "qsgd(bits=7)", "qsgd(bits=8)",
                                "qsgd(bits=4,block=768)", "qsgd(bits=2,feedback=on)",
                                "qsgd(bits=4,feedback=on)", "qsgd(bits=8,feedback=on)",
                                "qsgd(bits=5,block=512,feedback=on)"},
          .make = Make};
}

}  // namespace gradwire
