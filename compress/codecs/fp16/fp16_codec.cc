#include "compress/codecs/fp16/fp16_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class Fp16Codec : public PayloadCodec {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {};
    return kTraits;
  }

  int64_t MaxBytes(int64_t elems) const override { return 2 * elems; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }

  Status Encode(const EncodeArgs& args) const override {
    EncodeStats unread;
    const StatusOr<EncodeJob> job = StartEncode(*this, args, &unread);
    if (!job.ok()) return job.status();
    ActiveCastKernels().encode(DType::kFloat16, *job);
    return Status::Ok();
  }

  Status Decode(ConstBytes payload, View out, float out_scale,
                ExecContext* context) const override {
    return Run(StartDecode(*this, payload, out, out_scale, context));
  }

  Status DecodeAdd(ConstBytes payload, View acc, ExecContext* context) const override {
    return Run(StartDecodeAdd(*this, payload, acc, context));
  }

 private:
  static Status Run(const StatusOr<DecodeJob>& job) {
    if (!job.ok()) return job.status();
    ActiveCastKernels().decode(DType::kFloat16, *job);
    return Status::Ok();
  }
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    // It loses what is below 2^-25 and what is above 65504: no contraction.
    return Status(gwInvalidArgument, "fp16 does not accept feedback=on",
                  "use bf16(feedback=on), whose range is that of float32");
  }
  if (!args.status().ok()) return args.status();
  return Codec{.spec = spec.name, .payload = std::make_shared<Fp16Codec>()};
}

}  // namespace

CodecRow Fp16Row() {
  return {.name = "fp16",
          .doc =
              "round to nearest float16, relative error 2^-12 between 2^-14 and 65504, 16 bits per "
              "element",
          .keys = {},
          .conformance_specs = {"fp16"},
          .make = Make};
}

}  // namespace gradwire
