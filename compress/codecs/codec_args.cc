#include "compress/codecs/codec_args.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace gradwire {
namespace {

constexpr uintptr_t kWorkspaceAlign = 64;

Status Invalid(const std::string& message, std::string hint = {}) {
  return Status(gwInvalidArgument, message, std::move(hint));
}

Status CheckHost(MemoryKind memory, const ExecContext* context) {
  if (memory == MemoryKind::kCuda || (context != nullptr && context->memory == MemoryKind::kCuda)) {
    return Invalid("a CPU codec was given device memory");
  }
  return Status::Ok();
}

Status CheckResidual(const ConstView& e, int64_t elems, const std::string& name) {
  if (e.empty()) return Status::Ok();
  GW_RETURN_IF_ERROR(CheckHost(e.memory, nullptr));
  if (e.dtype != DType::kFloat32) return Invalid(name + " must be float32");
  if (e.elems != elems) return Invalid(name + " must have as many elements as grad");
  return Status::Ok();
}

// Exactly the same array or no common byte: a kernel reads a block of e_in, then writes it to
// e_out.
Status CheckOverlap(const ConstView& e_in, const View& e_out) {
  if (e_in.empty() || e_out.empty() || e_in.data == e_out.data) return Status::Ok();
  const auto in = reinterpret_cast<uintptr_t>(e_in.data);
  const auto out = reinterpret_cast<uintptr_t>(e_out.data);
  const auto bytes = static_cast<uintptr_t>(e_in.bytes());
  if (in < out + bytes && out < in + bytes) return Invalid("e_in and e_out overlap in part");
  return Status::Ok();
}

bool IsPowerOfTwo(float scale) {
  int exponent = 0;
  return std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5f;
}

Status CheckPosition(const PayloadCodec& codec, const EncodeArgs& args) {
  const int64_t first = args.dither.first_elem;
  if (first < 0 || first % codec.traits().quantum_elems != 0) {
    return Invalid("first_elem must be a multiple of the codec's quantum");
  }
  if (args.grad.elems > kDitherMaxElems - first)
    return Invalid("a tensor has at most 2^35 elements");
  return Status::Ok();
}

Status CheckWorkspace(const Bytes& workspace, int64_t least_bytes) {
  if (least_bytes == 0) return Status::Ok();
  GW_RETURN_IF_ERROR(CheckHost(workspace.memory, nullptr));
  if (workspace.size < least_bytes)
    return Invalid("workspace is smaller than WorkspaceBytes(grad.elems)");
  if (reinterpret_cast<uintptr_t>(workspace.data) % kWorkspaceAlign != 0)
    return Invalid("workspace must be aligned to 64 bytes");
  return Status::Ok();
}

Status CheckEncode(const PayloadCodec& codec, const EncodeArgs& args) {
  GW_RETURN_IF_ERROR(CheckHost(args.grad.memory, args.context));
  if (args.grad.elems < 0) return Invalid("grad has a negative number of elements");
  if (!codec.traits().dtypes.contains(args.grad.dtype)) {
    return Invalid("grad must be float32, float16 or bfloat16");
  }
  GW_RETURN_IF_ERROR(CheckResidual(args.e_in, args.grad.elems, "e_in"));
  GW_RETURN_IF_ERROR(CheckResidual(args.e_out, args.grad.elems, "e_out"));
  GW_RETURN_IF_ERROR(CheckOverlap(args.e_in, args.e_out));
  if (!IsPowerOfTwo(args.in_scale)) return Invalid("in_scale must be a positive power of two");
  GW_RETURN_IF_ERROR(CheckPosition(codec, args));
  GW_RETURN_IF_ERROR(CheckHost(args.out.memory, nullptr));
  if (args.out.size < codec.MaxBytes(args.grad.elems)) {
    return Invalid("out is smaller than MaxBytes(grad.elems)");
  }
  return CheckWorkspace(args.workspace, codec.WorkspaceBytes(args.grad.elems));
}

Status CheckPayload(const PayloadCodec& codec, const ConstBytes& payload, const View& out) {
  GW_RETURN_IF_ERROR(CheckHost(payload.memory, nullptr));
  if (out.elems < 0) return Invalid("the output has a negative number of elements");
  if (payload.size == codec.MaxBytes(out.elems)) return Status::Ok();
  ErrorDetail detail{.message = "a payload has the wrong size"};
  detail.field = "payload bytes";
  detail.expected = std::to_string(codec.MaxBytes(out.elems)) + " (expected)";
  detail.actual = std::to_string(payload.size) + " (found)";
  return Status(gwDataCorrupt, std::move(detail));
}

}  // namespace

StatusOr<EncodeJob> StartEncode(const PayloadCodec& codec, const EncodeArgs& args,
                                EncodeStats* unread) {
  GW_RETURN_IF_ERROR(CheckEncode(codec, args));
  EncodeStats* stats = args.stats != nullptr ? args.stats : unread;
  *stats = EncodeStats{.bytes = codec.MaxBytes(args.grad.elems)};
  const InputJob input = {.grad = args.grad.data,
                          .dtype = args.grad.dtype,
                          .in_scale = args.in_scale,
                          .e_in = args.e_in.empty() ? nullptr : args.e_in.as<float>(),
                          .e_out = args.e_out.empty() ? nullptr : args.e_out.as<float>(),
                          .elems = args.grad.elems,
                          .stats = stats,
                          .tensor_elems = std::max(args.tensor_elems, args.grad.elems)};
  return EncodeJob{input, args.out.data, args.dither, args.workspace};
}

StatusOr<DecodeJob> StartDecode(const PayloadCodec& codec, ConstBytes payload, View out,
                                float out_scale, const ExecContext* context) {
  GW_RETURN_IF_ERROR(CheckHost(out.memory, context));
  if (!kFloatTypes.contains(out.dtype)) {
    return Invalid("the output must be float32, float16 or bfloat16");
  }
  GW_RETURN_IF_ERROR(CheckPayload(codec, payload, out));
  return DecodeJob{.payload = payload.data,
                   .out = out.data,
                   .dtype = out.dtype,
                   .to = DecodeTo::kStore,
                   .out_scale = out_scale,
                   .elems = out.elems};
}

StatusOr<DecodeJob> StartDecodeAdd(const PayloadCodec& codec, ConstBytes payload, View acc,
                                   const ExecContext* context) {
  GW_RETURN_IF_ERROR(CheckHost(acc.memory, context));
  if (acc.dtype != DType::kFloat32) return Invalid("the accumulator must be float32");
  GW_RETURN_IF_ERROR(CheckPayload(codec, payload, acc));
  return DecodeJob{.payload = payload.data,
                   .out = acc.data,
                   .dtype = acc.dtype,
                   .to = DecodeTo::kAdd,
                   .out_scale = 1.0f,
                   .elems = acc.elems};
}

Status CpuCodec::Encode(const EncodeArgs& args) const {
  EncodeStats unread;
  const StatusOr<EncodeJob> job = StartEncode(*this, args, &unread);
  if (!job.ok()) return job.status();
  RunEncode(*job);
  return Status::Ok();
}

Status CpuCodec::Run(const StatusOr<DecodeJob>& job) const {
  if (!job.ok()) return job.status();
  if (RunDecode(*job)) return Status::Ok();
  return Status(gwDataCorrupt, "a payload is not what its codec writes",
                "Check that all ranks run the same version and the same spec");
}

Status CpuCodec::Decode(ConstBytes payload, View out, float out_scale, ExecContext* context) const {
  return Run(StartDecode(*this, payload, out, out_scale, context));
}

Status CpuCodec::DecodeAdd(ConstBytes payload, View acc, ExecContext* context) const {
  return Run(StartDecodeAdd(*this, payload, acc, context));
}

}  // namespace gradwire
