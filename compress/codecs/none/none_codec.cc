#include "compress/codecs/none/none_codec.h"

#include <memory>

#include "compress/codecs/codec_args.h"
#include "compress/codecs/none/none_carrier.h"
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

class NoneCodec : public PayloadCodec {
 public:
  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {
        .unbiased = true, .contractive = true, .lossless = true};
    return kTraits;
  }

  int64_t MaxBytes(int64_t elems) const override { return 4 * elems; }
  int64_t WorkspaceBytes(int64_t) const override { return 0; }

  Status Encode(const EncodeArgs& args) const override {
    EncodeStats unread;
    const StatusOr<EncodeJob> job = StartEncode(*this, args, &unread);
    if (!job.ok()) return job.status();
    ActiveCastKernels().encode(DType::kFloat32, *job);
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
    ActiveCastKernels().decode(DType::kFloat32, *job);
    return Status::Ok();
  }
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    return Status(gwInvalidArgument, "none has no error to feed back", "leave feedback=on out");
  }
  if (!args.status().ok()) return args.status();
  return Codec{
      .spec = spec.name, .payload = std::make_shared<NoneCodec>(), .carrier = MakeNoneCarrier()};
}

}  // namespace

CodecRow NoneRow() {
  return {.name = "none",
          .doc = "exact: float32, 32 bits per element",
          .keys = {},
          .conformance_specs = {"none"},
          .make = Make};
}

}  // namespace gradwire
