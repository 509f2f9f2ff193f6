// PayloadCodec: a compressor whose result is a self-contained string of bytes. Stateless,
// re-entrant, no allocation, no clock, no globals; all state (residuals, random counters) is an
// argument.
#ifndef GRADWIRE_COMPRESS_PAYLOAD_CODEC_H_
#define GRADWIRE_COMPRESS_PAYLOAD_CODEC_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/view.h"

namespace gradwire {

// Elements under one scale, where a codec has scales.
inline constexpr int64_t kBlockElems = 256;

struct CodecTraits {
  bool unbiased = false;  // E[Decode(Encode(x))] = x
  // |x - Decode(Encode(x))|^2 <= (1 - delta) |x|^2 for every x, but for what is below the smallest
  // normal float: feedback is sound. Where only some elements or directions travel at a time
  // (randk, topk of speakers, powersgd, acp) it holds on the average over draws or turns, and where
  // ranks share a scale (qsgd(sum=carrier)) of the sums of both sides over all ranks.
  bool contractive = false;
  bool estimates_sum = true;  // the aggregate estimates the sum (majority vote does not)
  bool lossless = false;
  bool stochastic = false;  // rounding takes its random bits from the dither
  // Of a payload codec that rounds at random to the two levels around an element, which lie evenly
  // from 0 to its quantum's largest magnitude: how many, on each side. 0: it has another law.
  int levels = 0;
  // Scales follow from the sums of earlier steps: what it loses no single gradient tells.
  bool scales_from_past = false;
  // Of a payload codec whose type holds a small part of float32's range: what is scaled up lest it
  // underflow has to travel so.
  bool narrow_range = false;
  int64_t quantum_elems = 1;  // shard borders are multiples of this (but for the end of the tensor)
  DTypeSet dtypes = kFloatTypes;
};

// On a CUDA stream a call only enqueues, and statistics, size and status are valid at completion.
struct ExecContext {
  MemoryKind memory = MemoryKind::kHost;
  void* stream = nullptr;
};

// From the same pass as the encoding. Sums may differ in the last bits between targets; only one
// rank decides from them.
struct EncodeStats {
  double sum_p2 = 0;       // of p = grad * in_scale + e_in, finite blocks only
  double sum_err2 = 0;     // of p - decoded
  float absmax = 0;        // of p, finite elements
  uint32_t nonfinite = 0;  // elements that are NaN or infinite, or too large for the codec's type
  int64_t bytes = 0;       // written to `out`
};

struct EncodeArgs {
  ConstView grad;  // float32, float16 or bfloat16
  ConstView e_in;  // float32 residual or empty (reads as zeros)
  View e_out;  // float32 residual or empty (not written); disjoint from e_in or exactly the same
  Bytes out;   // at least MaxBytes(grad.elems), any alignment
  Bytes workspace;               // at least WorkspaceBytes(grad.elems), 64-byte aligned
  float in_scale = 1.0f;         // power of two
  EncodeStats* stats = nullptr;  // may be null
  Dither dither;                 // first_elem: index of grad[0] in its tensor
  // Of the tensor that grad is a part of: a large one's residual passes the caches by. 0: grad is
  // all of it.
  int64_t tensor_elems = 0;
  ExecContext* context = nullptr;  // null: host
};

class PayloadCodec {
 public:
  virtual ~PayloadCodec() = default;
  virtual const CodecTraits& traits() const = 0;
  // gwInvalidArgument with the valid range where a tensor of so many elements is not for this codec
  // as its spec has it. Of parts of a tensor nobody asks: they can be encoded at any size.
  virtual Status Check(int64_t /*elems*/) const { return Status(); }

  // Closed form, and the size of every payload. Encode succeeds whenever `out` has it. The payload
  // of a run is also the payloads of its parts in a row, wherever it is cut at a quantum.
  virtual int64_t MaxBytes(int64_t elems) const = 0;
  virtual int64_t WorkspaceBytes(int64_t elems) const = 0;

  // p = fl(grad * in_scale) + e_in;  out = encoding of p;  e_out = fl(p - decoded out). A block
  // with a non-finite element decodes to NaN as a whole and leaves e_out = e_in there (zero where
  // e_in is empty).
  virtual Status Encode(const EncodeArgs& args) const = 0;

  // Any bytes whatever: success or gwDataCorrupt, and nothing outside the views is touched.
  // `payload` is exactly what Encode made for out.elems elements; out is float32, float16 or
  // bfloat16; every element is multiplied once by `out_scale` after decoding, in float32.
  virtual Status Decode(ConstBytes payload, View out, float out_scale,
                        ExecContext* context) const = 0;
  // acc (float32) += decoded, exactly one float32 add per element.
  virtual Status DecodeAdd(ConstBytes payload, View acc, ExecContext* context) const = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_PAYLOAD_CODEC_H_
