// TensorState: what a communicator keeps of a registered gradient. Its name is its identity.
#ifndef GRADWIRE_RUNTIME_STATE_TENSOR_STATE_H_
#define GRADWIRE_RUNTIME_STATE_TENSOR_STATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "compress/registry.h"
#include "runtime/engine/tensor_list.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {

// What a codec keeps of one tensor from step to step. Two slots: an operation reads the live one
// and writes the other; the vote flips them. With one slot it is read and written in place.
class StateSlots {
 public:
  // The live slot is zero. gwSystemError: no memory.
  Status Allocate(int64_t bytes, int slots);
  void Release();
  bool allocated() const { return bytes_ > 0; }
  int64_t held_bytes() const { return bytes_ * slots_; }

  ConstBytes live() const { return {slot_[live_].data(), bytes_}; }
  Bytes LiveInPlace() { return {slot_[live_].data(), bytes_}; }
  Bytes next() { return {slot_[slots_ - 1 - live_].data(), bytes_}; }
  void Commit() { live_ = slots_ - 1 - live_; }  // what was staged becomes live
  void Restore(ConstBytes bytes);                // all of them, into the live slot

 private:
  AlignedBuffer slot_[2];
  int64_t bytes_ = 0;
  int live_ = 0, slots_ = 1;
};

// State with a float32 for each element of the tensor, as a residual is. Without transactions it
// has one slot.
class FloatSlots {
 public:
  Status Allocate(int64_t elems, bool transaction);
  // What that takes.
  static int64_t BytesFor(int64_t elems, bool transaction) {
    return BytesOfSlot(elems) * Slots(transaction);
  }
  void Release() { slots_.Release(); }
  bool allocated() const { return slots_.allocated(); }
  int64_t held_bytes() const { return slots_.held_bytes(); }

  ConstView live() const;
  View LiveInPlace();  // for operations outside steps
  View next();         // the slot an operation in a step writes
  // An operation has added all of it to `out`, which is equal on all ranks, and kept nothing back:
  // only what met a NaN or an infinity there stays. `staged`: in the next slot, else in place.
  // Whether anything stays.
  bool KeepUnsent(ConstView out, bool staged);
  void Commit() { slots_.Commit(); }
  void Restore(ConstBytes floats) { slots_.Restore(floats); }

 private:
  static int64_t BytesOfSlot(int64_t elems) { return elems * static_cast<int64_t>(sizeof(float)); }
  static int Slots(bool transaction) { return transaction ? 2 : 1; }

  StateSlots slots_;
};

// What the controller is told of a tensor's part in one step.
struct TensorTally {
  float ready_us = 0;  // submitted, since the step began
  int64_t codec_ns = 0;
  double energy = 0, error = 0;  // of what was encoded, and of what that lost
  double sum_energy = 0;         // of energy, that of sums encoded by their owner
};

// What ranks must agree on about a tensor. Operations keep it: errors may tell of it when the
// tensor is gone or has another codec.
struct TensorLabel {
  std::string name, spec;
  int64_t elems = 0;
  std::string shape;    // as text; empty: the codec does not look at it
  uint64_t digest = 0;  // of all of that
};

struct TensorState {
  std::string name;
  uint64_t id = 0;  // hash of the name
  std::vector<int64_t> shape;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
  Codec codec;  // in effect: what the spec says, or `none` for a tensor too small or excluded
  std::string exemption;  // why the latter, with the spec; else empty
  std::shared_ptr<const AutoSpec>
      automatic;                // by TakeLadder: what the controller chooses from; may be null
  int64_t automatic_since = 0;  // the turn in which it got its ladder
  std::string kept_spec;        // of the codec that keeps `replicated` and `local`
  FloatSlots residual;          // what compression has kept back, in units of the sum
  StateSlots replicated;        // of the codec's carrier method; always two slots
  FloatSlots local;             // of the carrier method, this rank's alone
  std::atomic<bool> in_flight{false};  // an operation is under way
  uint64_t last_submit = 0;            // the call that named it last, to find it named twice
  bool submitted = false;              // in the open step
  bool took_part = false;              // complete in the open step, awaiting the vote
  bool staged = false;                 // likewise, with slots that the vote flips
  bool replicated_staged = false;      // likewise, also without transactions
  bool travelled = false;              // in the open step: the residual was sent on, and is nothing
  bool fresh = false;                  // the residual came to be in the open step
  bool sent_free = false;              // in this turn: outside steps it was sent on, and let go
  uint64_t committed_step = 0;
  // Operations completed outside steps, for their dithers, or more: after some aborts numbers are
  // left out. The engine's thread adds, the one that submits reads.
  std::atomic<uint32_t> free_ops{0};
  // Ledger.
  int64_t ops = 0, payload_bytes = 0, encode_ns = 0, decode_ns = 0;
  double last_relerr = 0;  // sqrt(error / energy) of what this rank encoded last
  TensorTally tally;       // of the turn

  // The method's own state goes with the codec: another one would not understand it.
  void SetCodec(Codec now);
  // The controller chooses its codec from now on.
  void TakeLadder(std::shared_ptr<const AutoSpec> ladder, int world_size);
  // Whether the rung is one whose codec can encode it: the plain sum always can.
  bool CanUse(int rung) const { return rung < std::ssize(usable_) && usable_[rung]; }
  // A rung of its ladder. What other rungs have kept stays for them: a trial goes back to them, and
  // an abort may leave one rank on this rung and another on the one before.
  void TakeRung(const Codec& now, int world_size);
  // Of all rungs.
  void ReleaseReplicated();
  int64_t replicated_bytes() const;
  // With the codec in effect. The thread that submits.
  const std::shared_ptr<const TensorLabel>& Label();
  // Of its carrier method before there is a step, for this many ranks. The thread that submits.
  const std::vector<RoundSpec>& Rounds(int world_size);
  // The open step leaves no trace, but for what was written in place.
  void ForgetStaged() { took_part = staged = replicated_staged = travelled = false; }
  bool feedback() const { return codec.feedback == Feedback::kOn; }
  // With its codec, or any that the controller may give it: equal on all ranks.
  bool MayKeepResidual() const;
  bool keeps_local() const { return codec.carrier != nullptr && codec.carrier->KeepsLocal(); }

 private:
  void SetAside(const std::string& spec);

  std::shared_ptr<const TensorLabel> label_;     // as asked for last; may be null
  std::vector<bool> usable_;                     // the rungs of `automatic`
  std::map<std::string, StateSlots> set_aside_;  // `replicated` of other rungs, by spec
  // As asked for last.
  struct KnownRounds {
    std::string spec;
    int world_size = 0;
    std::vector<RoundSpec> rounds;
  } known_;
};

TensorMeta MetaOf(const TensorState& tensor);
// "[128,64] float"
std::string ShapeText(std::span<const int64_t> shape, DType dtype);
// Why the tensor travels as `none` under this codec: "512 elements < min_numel 1024", or too few
// dimensions, or `exclude`, or factors that are no smaller than the matrix. Empty: it does not.
std::string ExemptionFrom(const Codec& codec, const TensorState& tensor);
// Of its codec, for this many ranks; 0: it keeps none, or has no elements.
int64_t ReplicatedBytes(const TensorState& tensor, int world_size);
// Two slots always: ranks that complete a step others abort must be able to go back.
inline constexpr int kReplicatedSlots = 2;

// True if `name` matches one of the comma-separated globs (* and ?).
bool MatchesAny(const std::string& globs, const std::string& name);

// All tensors of a communicator, in the order of their ids where order matters.
class TensorTable {
 public:
  // gwInvalidArgument: a name twice, or two names with one id.
  StatusOr<TensorState*> Add(std::unique_ptr<TensorState> tensor);
  void Remove(TensorState* tensor);

  // Equal on all ranks if the tables agree: names, shapes, types.
  uint64_t Digest() const;
  std::vector<TensorState*> All() const;
  TensorList List() const;

  // What was staged becomes live, or is forgotten: the vote's outcome. Residuals that came to be in
  // a step that is not committed go: other ranks may not have come as far, and whether a tensor has
  // one decides what travels.
  void EndStep(uint64_t step, bool commit);
  // What is the same on all ranks while they complete the same operations, and may not be after
  // this turn: replicated state goes, operations outside steps are counted from `draws` on (which
  // no rank has drawn by, TurnResult), and all tensors with feedback have a residual, as those of
  // other ranks may, and so have those whose residual this rank has sent in the turn. What is in
  // residuals and local state is each rank's own and stays. gwSystemError: no memory for one.
  Status BeginAnew(uint32_t draws, bool transaction);

  // This rank's residuals, states of methods and counters as bytes with checksums: how many they
  // are; written where `to` has room for all. `controller`: what that wants to be kept beside them.
  int64_t SaveTo(Bytes to, int rank, int world_size, std::string_view controller = {}) const;
  // The same in memory of its own.
  std::string Save(int rank, int world_size, std::string_view controller = {}) const;
  // And back. Changes nothing unless it succeeds.
  Status Load(ConstBytes bytes, int rank, int world_size, bool transaction,
              std::string* controller = nullptr);

 private:
  std::map<std::string, std::unique_ptr<TensorState>> tensors_;
  std::map<uint64_t, const TensorState*> by_id_;  // all of them
  // TensorState::free_ops of those that are added: a name that is registered again goes on behind
  // what it has drawn before.
  uint32_t drawn_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_STATE_TENSOR_STATE_H_
