// Probe: a codec tried on a piece of a gradient, besides the training. Writes no residual and no
// state.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "compress/registry.h"

namespace gradwire {

// Input of one probe: what is encoded between two polls of the engine.
inline constexpr int64_t kProbeBytes = 256 * 1024;

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
  StatusOr<ProbeReport> ProbePayload(const PayloadCodec& codec, ConstView grad, int world_size);
  StatusOr<ProbeReport> ProbeCarrier(const CarrierMethod& method, ConstView grad,
                                     std::span<const int64_t> shape);

  const Clock* const clock_;
  AlignedBuffer payload_, workspace_, decoded_, agreed_, replicated_in_, replicated_out_, e_out_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PROBE_H_
