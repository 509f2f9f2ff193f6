#include "compress/codecs/bf16/bf16_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class Bf16Codec : public PayloadCodec {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {.contractive = true};
    return kTraits;
  }

  int64_t MaxBytes(int64_t elems) const override { return 2 * elems; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }

  Status Encode(const EncodeArgs& args) const override {
    EncodeStats unread;
    const StatusOr<EncodeJob> job = StartEncode(*this, args, &unread);
    if (!job.ok()) return job.status();
    ActiveCastKernels().encode(DType::kBfloat16, *job);
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
    ActiveCastKernels().decode(DType::kBfloat16, *job);
    return Status::Ok();
  }
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const Feedback feedback = args.ReadFeedback(Feedback::kOff);
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = args.canonical(), .feedback = feedback, .payload = std::make_shared<Bf16Codec>()};
}

}  // namespace

CodecRow Bf16Row() {
  return {.name = "bf16",
          .doc = "round to nearest bfloat16, relative error 2^-9, 16 bits per element",
          .keys = {},
          .conformance_specs = {"bf16", "bf16(feedback=on)"},
          .make = Make};
}

}  // namespace gradwire
