// Parts and pieces: what the schemes for registered tensors cut operations into.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_PART_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_PART_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/timeline.h"
#include "base/view.h"
#include "collectives/schemes/slice_stats.h"
#include "compress/carrier_method.h"
#include "compress/payload_codec.h"

namespace gradwire {

// One tensor's part in one operation. All views cover the whole tensor and hold until the operation
// is done.
struct TensorPart {
  ConstView grad;
  View out;                  // type of grad; may be the same memory
  ConstView e_in;            // float32 residual or empty
  View e_out;                // float32 or empty; disjoint from e_in or exactly the same
  ConstBytes replicated_in;  // of the method, with replicated_out; empty for a codec
  Bytes replicated_out;
  ConstView local_in;  // of the method, or empty
  View local_out;
  std::span<const int64_t> shape;
  uint64_t tensor_id = 0;  // 64-bit hash of the name
  uint32_t dither_step = 0;
  const PayloadCodec* codec = nullptr;    // of two_shot
  const CarrierMethod* method = nullptr;  // of linear
  int64_t quantum_elems = 1;              // of the method; a codec's is among its traits
  bool has_residual = false;              // on any rank, so also where e_in is empty
  // Of two_shot: travels in the units of its gradients, not in those of residuals. e_out is empty;
  // e_in, which some ranks may have and others not, goes along.
  bool in_gradient_units = false;
  bool rides = false;           // in a slice of the others; they make room for it
  SliceStats* stats = nullptr;  // of its pieces, added to; null: nobody asks
};

// What all parts of an operation share.
struct PartContext {
  int rank = 0, world_size = 1;
  float in_scale = 1.0f, out_scale = 1.0f;  // in: power of two; out: applied once at the end
  float rest_scale = 1.0f;                  // StepView
  uint32_t seed = 0;                        // for dithers
  const Clock* clock = nullptr;             // times encoding and decoding
  bool count_nonfinite = false;             // look at results for the non-finite policy
  Timeline* timeline = nullptr;             // null: nobody wants it
};

// Nanoseconds since `begin_ns`, of `kind`.
inline int64_t CodecTime(const PartContext& context, SpanKind kind, int64_t begin_ns) {
  const int64_t end_ns = context.clock->NowNs();
  if (context.timeline != nullptr) {
    context.timeline->Add({.kind = kind, .begin_ns = begin_ns, .end_ns = end_ns});
  }
  return end_ns - begin_ns;
}

// What a piece of `part` comes to, for its slice and for the tensor itself.
inline void CountPiece(const SliceStats& counted, const TensorPart& part, SliceStats* slice) {
  slice->Add(counted);
  if (part.stats != nullptr) part.stats->Add(counted);
}

// Where `out` is not finite: of what was sent nothing has arrived, and e_out is what e_in was
// there; zero where that is empty.
void KeepWhereNotFinite(ConstView out, ConstView e_in, View e_out);

// Elements [first, first + elems) of parts[part].
struct Piece {
  int part = 0;
  int64_t first = 0, elems = 0;
  int64_t payload_offset = 0, payload_bytes = 0;  // in the shard's payload
  int64_t row = 0;                                // first element in the shard's accumulator
};

// Borders of slices, shards and pieces are multiples of this and of the codec's quantum.
inline constexpr int64_t kCutElems = kBlockElems;
// That common multiple for one tensor, so that its blocks lie where they lie without any cut.
int64_t CutElemsOf(const TensorPart& part);
// Its method takes the tensor as a whole: slices do not cut it.
bool IsWhole(const TensorPart& part);
// No codec's and no method's is larger.
inline constexpr int64_t kMaxCutElems = 4096;
// Work between two polls: 256 KiB of float32.
inline constexpr int64_t kPieceElems = 64 * 1024;

// Cuts the concatenation of the parts, each padded to kCutElems, into slices of at most
// `slice_elems` (a multiple of kCutElems). Where that is less than CutElemsOf a part, a slice is
// one such multiple: blocks are never cut, nor are tensors that are whole. Parts that ride follow
// the others in the last slice and may make it longer. A pure function of the parts' sizes and
// codecs.
std::vector<std::vector<Piece>> CutIntoSlices(std::span<const TensorPart> parts,
                                              int64_t slice_elems);

// Cuts one tensor of `world_size` equal shards, one for each rank, into slices of about
// `slice_elems`: a slice has the same range of every shard, in the order of the ranks. Blocks begin
// anew at each shard.
std::vector<std::vector<Piece>> CutShardsIntoSlices(const TensorPart& part, int world_size,
                                                    int64_t slice_elems);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_PART_H_
