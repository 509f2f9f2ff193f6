// What a codec hands to its kernels: EncodeArgs and Decode's arguments after checking, with raw
// pointers.
#ifndef GRADWIRE_COMPRESS_KERNELS_KERNEL_JOB_H_
#define GRADWIRE_COMPRESS_KERNELS_KERNEL_JOB_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/view.h"
#include "compress/payload_codec.h"

namespace gradwire {

// Kernels work on runs of 256 elements: the input of a run stays in the first-level cache between
// the pass that finds the scale and the pass that uses it.
inline constexpr int64_t kRunElems = kBlockElems;

// A block with a non-finite element has this scale on the wire, and decodes to this float.
inline constexpr uint32_t kNanBits = 0x7FC00000u;

// Bit patterns of |x|, which order as the numbers do.
inline constexpr uint32_t kInfBits = 0x7F800000u;
inline constexpr uint32_t kMinNormalBits = 0x00800000u;

// Blocks whose largest magnitude lies in [2^-80, 2^80) need no care for overflow and underflow. The
// SIMD kernels of scaled codecs treat only these and leave the others to the reference.
inline constexpr uint32_t kPlainBegin = (127u - 80u) << 23;
inline constexpr uint32_t kPlainEnd = (127u + 80u) << 23;

// The input p = fl(grad * in_scale) + e_in, and where a pass over it leaves residual and
// statistics.
struct InputJob {
  const std::byte* grad = nullptr;  // elems of dtype
  DType dtype = DType::kFloat32;    // float32, float16 or bfloat16
  float in_scale = 1.0f;
  const float* e_in = nullptr;  // elems, or null: nothing is added
  float* e_out = nullptr;       // elems, or null; disjoint from e_in or equal to it
  int64_t elems = 0;
  EncodeStats* stats = nullptr;  // added to; null only where a kernel says that it may be
  int64_t tensor_elems = 0;      // of the tensor; only speed depends on it

  // Elements [first, first + count).
  InputJob Sub(int64_t first, int64_t count) const {
    InputJob job = *this;
    job.grad += first * SizeOf(dtype);
    if (e_in != nullptr) job.e_in += first;
    if (e_out != nullptr) job.e_out += first;
    job.elems = count;
    return job;
  }
};

// Its encoding.
struct EncodeJob : InputJob {
  std::byte* out = nullptr;  // as many bytes as the codec says, any alignment
  Dither dither;             // first_elem belongs to grad[0]
  Bytes workspace;           // of a payload codec: at least the bytes it asks for

  // Elements [first, first + count), whose payload starts at `out_bytes`.
  EncodeJob Sub(int64_t first, int64_t count, int64_t out_bytes) const {
    EncodeJob job = {InputJob::Sub(first, count), out + out_bytes, dither, workspace};
    job.dither.first_elem += first;
    return job;
  }
};

enum class DecodeTo : uint8_t { kStore, kAdd };

struct DecodeJob {
  const std::byte* payload;  // as many bytes as the codec says, any alignment, any contents
  std::byte* out;            // elems of dtype
  DType dtype;               // kAdd: float32
  DecodeTo to;
  float out_scale;  // kStore only
  int64_t elems;

  DecodeJob Sub(int64_t first, int64_t count, int64_t payload_bytes) const {
    DecodeJob job = *this;
    job.payload += payload_bytes;
    job.out += first * SizeOf(dtype);
    job.elems = count;
    return job;
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_KERNEL_JOB_H_
