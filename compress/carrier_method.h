// CarrierMethod: a compressor in rounds of "fill an array, let any all-reduce sum it, absorb the
// sum". The collective sees a plain numeric array and knows no codec, so ring, tree, MPI and NCCL
// all carry it. A few methods cannot be summed, and gather.
#ifndef GRADWIRE_COMPRESS_CARRIER_METHOD_H_
#define GRADWIRE_COMPRESS_CARRIER_METHOD_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/view.h"
#include "compress/payload_codec.h"

namespace gradwire {

struct TensorMeta {
  std::span<const int64_t> shape;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
  bool has_residual = false;  // equal on all ranks, so that a round's type may depend on it
};

// The collective of one round: identical on all ranks and known before the round. Where an
// all-reduce is to gather (lists of indices), each rank fills a part of its own and leaves zeros in
// the others'.
struct RoundSpec {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t elems = 0;  // that a rank fills
};

// kElementwise: slices may cut it. kTensor: never cut, only its runs are.
enum class CarrierUnit : uint8_t { kElementwise, kTensor };

struct StepView {
  TensorMeta meta;
  int world_size = 1;
  ConstView grad;  // float32, float16 or bfloat16
  float in_scale = 1.0f, out_scale = 1.0f;
  // Of the loss scale what `in_scale`, a power of two, leaves in the gradients: from 1 to below 2,
  // and beyond the powers that have a normal reciprocal (2^-126 to 2^126) from 2^-23 to below 4.
  // What is proportional to them has it; what is not, such as signs, is to be multiplied by it.
  float rest_scale = 1.0f;
  ConstView e_in;  // float32 or empty
  View e_out;  // float32 or empty; disjoint from e_in or exactly the same. A method that takes no
               // feedback need not write it: steps of `feedback=off` have none, and send e_in once
  ConstBytes replicated_in;  // ReplicatedBytes, as the last committed step left them
  Bytes replicated_out;      // disjoint from replicated_in; written in full, like e_out
  ConstView local_in;        // float32, one an element, or empty unless KeepsLocal
  View local_out;  // likewise; disjoint from local_in or exactly the same, then written in Absorb
  View out;  // type of grad, and may be its memory; written in the last Absorb, after the last
             // use of grad
  Dither dither;
  Bytes agreed;  // AgreedBytes of scratch, equal on all ranks after each Absorb (scales, index set)
  Bytes workspace;               // WorkspaceBytes of scratch of this rank alone
  EncodeStats* stats = nullptr;  // added to by Fill; null in Absorb
};

class CarrierMethod {
 public:
  virtual ~CarrierMethod() = default;
  virtual const CodecTraits& traits() const = 0;
  virtual int rounds() const = 0;  // 1..3
  virtual CarrierUnit unit() const = 0;
  // gwInvalidArgument with the valid range where this tensor cannot be summed by this many ranks.
  virtual Status Check(const TensorMeta&, int /*world_size*/) const { return Status(); }
  virtual int64_t QuantumElems(const TensorMeta&, int world_size) const = 0;
  // Both kinds of scratch live through all rounds of a step.
  virtual int64_t AgreedBytes(const TensorMeta&, int /*world_size*/) const { return 0; }
  virtual int64_t WorkspaceBytes(const TensorMeta&, int /*world_size*/) const { return 0; }
  // State of the tensor that is equal on all ranks and lives from step to step; all zeros before
  // the first.
  virtual int64_t ReplicatedBytes(const TensorMeta&, int /*world_size*/) const { return 0; }
  // It keeps a float32 for each element that is this rank's alone and lives from step to step:
  // zeros before the first, cut as the tensor is. Unlike a residual it is no part of the sum, so
  // that nobody sends it: it goes with the codec.
  virtual bool KeepsLocal() const { return false; }
  // Its rounds are all-gathers: what Absorb gets is the carriers of all ranks, in their order.
  // Traffic grows with the ranks, so Check refuses what a sum of the elements would move faster.
  virtual bool Gathers() const { return false; }
  // What this tensor gets that is not what the spec says, in words for the ledger: "rank 4 of 8,
  // for the matrix is 4 x 100". Empty: nothing. `meta` is one that Check accepts.
  virtual std::string Note(const TensorMeta&) const { return {}; }
  // With `agreed` as the rounds before left it, and `replicated` as StepView::replicated_in; before
  // there is a step both are empty, and `elems` is what to expect. A round of no elements is not
  // run, but for the last. Type and operation depend on neither: tensors that are equal in them
  // share their collectives.
  virtual RoundSpec Round(int round, const TensorMeta&, int world_size, ConstBytes agreed,
                          ConstBytes replicated) const = 0;
  // Whether any round's `elems` depends on `agreed`, so that nobody knows it without the data.
  virtual bool SizesDependOnData() const { return false; }
  // Local data -> carrier (RoundSpec::elems elements of its dtype).
  virtual Status Fill(int round, const StepView&, View carrier, ExecContext*) const = 0;
  // The sum of the carriers, or all of them, -> agreed scratch; in the last round out, e_out and
  // replicated_out, as far as Fill has not written e_out.
  virtual Status Absorb(int round, ConstView reduced, const StepView&, ExecContext*) const = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CARRIER_METHOD_H_
