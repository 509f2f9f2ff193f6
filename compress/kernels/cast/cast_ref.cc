// The specification of the casting codecs: plain loops, element by element.
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {
namespace {

float LoadWire(DType wire, const std::byte* in, int64_t i) {
  if (wire == DType::kFloat32) return ref::LoadAs<float>(in + 4 * i);
  const auto half = ref::LoadAs<uint16_t>(in + 2 * i);
  return wire == DType::kFloat16 ? FloatFromFp16(half) : FloatFromBf16(half);
}

// Returns what a decoder will read.
float StoreWire(DType wire, float value, std::byte* out, int64_t i) {
  if (wire == DType::kFloat32) {
    ref::StoreAs(value, out + 4 * i);
  } else {
    const bool fp16 = wire == DType::kFloat16;
    ref::StoreAs(fp16 ? Fp16FromFloat(value) : Bf16FromFloat(value), out + 2 * i);
  }
  return LoadWire(wire, out, i);
}

}  // namespace

void CastEncodeRef(DType wire, const EncodeJob& job) {
  for (int64_t i = 0; i < job.elems; ++i) {
    const float p = ref::CanonicalNan(ref::Input(job, i));
    const float decoded = StoreWire(wire, p, job.out, i);
    if (ref::IsFinite(decoded)) {
      ref::Finish(job, i, p, decoded);
    } else {
      ref::FinishNonFinite(job, i, decoded);
    }
  }
}

void CastDecodeRef(DType wire, const DecodeJob& job) {
  for (int64_t i = 0; i < job.elems; ++i) ref::Emit(job, i, LoadWire(wire, job.payload, i));
}

}  // namespace gradwire
