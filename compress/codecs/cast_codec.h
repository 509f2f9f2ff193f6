// CastCodec: each element as another floating-point type. What none, bf16 and fp16 are made of.
#ifndef GRADWIRE_COMPRESS_CODECS_CAST_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_CAST_CODEC_H_

#include "base/dtype.h"
#include "compress/codecs/codec_args.h"
#include "compress/kernels/cast/cast_kernels.h"

namespace gradwire {

class CastCodec final : public CpuCodec {
 public:
  // `wire`: float32, float16 or bfloat16.
  CastCodec(DType wire, const CodecTraits& traits) : wire_(wire), traits_(traits) {}

  const CodecTraits& traits() const override { return traits_; }
  int64_t MaxBytes(int64_t elems) const override { return SizeOf(wire_) * elems; }

 private:
  void RunEncode(const EncodeJob& job) const override { ActiveCastKernels().encode(wire_, job); }
  bool RunDecode(const DecodeJob& job) const override {
    ActiveCastKernels().decode(wire_, job);
    return true;  // all bytes are valid
  }

  const DType wire_;
  const CodecTraits traits_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_CAST_CODEC_H_
