// Checks what callers hand to a CPU codec, once, at its door; kernels trust what passed.
#ifndef GRADWIRE_COMPRESS_CODECS_CODEC_ARGS_H_
#define GRADWIRE_COMPRESS_CODECS_CODEC_ARGS_H_

#include "base/status.h"
#include "compress/kernels/kernel_job.h"
#include "compress/payload_codec.h"

namespace gradwire {

// gwInvalidArgument, without effect, where EncodeArgs' contract is broken: views, types, sizes,
// overlap, in_scale not a power of two, first_elem not on a quantum, device memory, no workspace
// where one is needed. Else a job whose statistics are reset; `unread` receives them where the
// caller wants none.
StatusOr<EncodeJob> StartEncode(const PayloadCodec& codec, const EncodeArgs& args,
                                EncodeStats* unread);

// gwInvalidArgument for a wrong output view; gwDataCorrupt for a payload that is not
// MaxBytes(elems) bytes: all CPU codecs here are of fixed size.
StatusOr<DecodeJob> StartDecode(const PayloadCodec& codec, ConstBytes payload, View out,
                                float out_scale, const ExecContext* context);
StatusOr<DecodeJob> StartDecodeAdd(const PayloadCodec& codec, ConstBytes payload, View acc,
                                   const ExecContext* context);

// A codec of fixed size for host memory: checks at the door, then the two kernels that a codec is
// made of.
class CpuCodec : public PayloadCodec {
 public:
  int64_t WorkspaceBytes(int64_t) const override { return 0; }
  Status Encode(const EncodeArgs& args) const final;
  Status Decode(ConstBytes payload, View out, float out_scale, ExecContext* context) const final;
  Status DecodeAdd(ConstBytes payload, View acc, ExecContext* context) const final;

 private:
  virtual void RunEncode(const EncodeJob& job) const = 0;
  // False: the bytes are not what RunEncode writes.
  virtual bool RunDecode(const DecodeJob& job) const = 0;
  Status Run(const StatusOr<DecodeJob>& job) const;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_CODEC_ARGS_H_
