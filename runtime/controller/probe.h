// Probe: a codec tried on a piece of a gradient, besides the training. Writes no residual and no
// state.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "compress/registry.h"

namespace gradwire {

// Carriers are tried by so many ranks, all with the gradient of this one: fields get a few bits
// wider with more, and each has to be filled.
inline constexpr int kProbedRanks = 2;
// And in so many steps, of which the last counts: bases and counts that a method keeps are zero
// before the first, and never again.
inline constexpr int kProbedSteps = 2;

// Input of one probe: what is encoded between two polls of the engine.
inline constexpr int64_t kProbeBytes = 256 * 1024;

// A part of a tensor to probe: whole rows, so that methods of whole tensors see one of its kind. Of
// rows that are too long a part, which has one dimension, so that methods of matrices refuse it.
struct ProbePiece {
  int64_t first_elem = 0;
  std::vector<int64_t> shape;
  int64_t elems = 0;
};

// Piece number `number` of a tensor of `shape`, about kProbeBytes large; further numbers begin
// again. Nothing where there are no elements.
std::optional<ProbePiece> PieceToProbe(std::span<const int64_t> shape, int64_t elem_bytes,
                                       int64_t number);

struct ProbeReport {
  double codec_us_per_elem = 0;  // of what a rank encodes and decodes in a step
  double relative_error = 0;     // |x - decoded|^2 / |x|^2
};

class Prober {
 public:
  explicit Prober(const Clock* clock) : clock_(clock) {}

  // `grad` is a piece of a tensor, or for methods of whole tensors, which see it with `shape`, all
  // of it. gwInvalidArgument where the codec refuses it; a piece without energy has no error.
  StatusOr<ProbeReport> Probe(const Codec& codec, ConstView grad, std::span<const int64_t> shape,
                              int world_size);

 private:
  // What one of the ranks that try a carrier has of its own.
  struct Rank {
    AlignedBuffer workspace, agreed, replicated_in, replicated_out, e_out, out, carrier;
    EncodeStats stats;
    int64_t codec_ns = 0;
  };
  // A carrier, and the step of its ranks.
  struct Trial {
    const Codec& codec;
    ConstView grad;
    TensorMeta meta;
    int ranks = 1;
  };

  StatusOr<ProbeReport> ProbePayload(const PayloadCodec& codec, ConstView grad, int world_size);
  StatusOr<ProbeReport> ProbeCarrier(const Trial& trial);
  Status Prepare(const Trial& trial, Rank* rank);
  Status RunRound(const Trial& trial, int round);
  Status Fill(const Trial& trial, int round, const RoundSpec& spec, int rank);
  Status AddCarriers(const Trial& trial, const RoundSpec& spec);
  StepView ViewOf(const Trial& trial, int rank);

  const Clock* const clock_;
  AlignedBuffer payload_, workspace_, decoded_;  // of a payload codec
  std::array<Rank, kProbedRanks> ranks_;
  AlignedBuffer zeros_;    // a residual
  AlignedBuffer reduced_;  // the sum of the carriers, or all of them
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_
