#include "compress/codecs/efsign/efsign_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/kernels/efsign/efsign_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class EfsignCodec final : public CpuCodec {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.contractive = true, .quantum_elems = kBlockElems};
    return kTraits;
  }

  int64_t MaxBytes(int64_t elems) const override { return EfsignBytes(elems); }

 private:
  void RunEncode(const EncodeJob& job) const override { ActiveEfsignKernels().encode(job); }
  bool RunDecode(const DecodeJob& job) const override { return ActiveEfsignKernels().decode(job); }
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOn) == Feedback::kOff) {
    return Status(gwInvalidArgument, "efsign does not accept feedback=off",
                  "Without feedback its bias stays; use qsgd(bits=2) for an unbiased codec");
  }
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = spec.name, .feedback = Feedback::kOn, .payload = std::make_shared<EfsignCodec>()};
}

}  // namespace

CodecRow EfsignRow() {
  return {
      .name = "efsign",
      .doc =
          "sign times the block's l1 mean, error feedback, 1.125 bits per element; EF-signSGD, "
          "Karimireddy et al. 2019",
      .keys = {},
      .conformance_specs = {"efsign"},
      .advice = {.momentum = false,
                 .adam = false,
                 .note = "momentum up to about 0.5: diverges at 0.9 with the rate of none; Adam "
                         "scales what is sent late by later variances: 0.06 nats lost of 2.5"},
      .make = Make};
}

}  // namespace gradwire
