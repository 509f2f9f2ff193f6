// What a step of a carrier method hands to kernels.
#ifndef GRADWIRE_COMPRESS_CODECS_CARRIER_JOBS_H_
#define GRADWIRE_COMPRESS_CODECS_CARRIER_JOBS_H_

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "compress/carrier_method.h"
#include "compress/kernels/kernel_job.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {

inline InputJob InputJobOf(const StepView& view) {
  return {.grad = view.grad.data,
          .dtype = view.grad.dtype,
          .in_scale = view.in_scale,
          .e_in = view.e_in.empty() ? nullptr : view.e_in.as<float>(),
          .e_out = view.e_out.empty() ? nullptr : view.e_out.as<float>(),
          .elems = view.grad.elems,
          .stats = view.stats};
}

inline EncodeJob EncodeJobOf(const StepView& view, View carrier) {
  return {InputJobOf(view), carrier.data, view.dither};
}

inline DecodeJob DecodeJobOf(const StepView& view, ConstView reduced) {
  return {.payload = reduced.data,
          .out = view.out.data,
          .dtype = view.out.dtype,
          .to = DecodeTo::kStore,
          .out_scale = view.out_scale,
          .elems = view.out.elems};
}

// Whether the first pass over gradient and residual may leave p in e_out, so that later ones read
// one array. Not in place: the residual must survive where another rank is not finite.
inline bool StagesInput(const StepView& view) {
  return !view.e_out.empty() && view.e_out.data != view.e_in.data;
}

// Likewise, whether it may leave the next local state in local_out.
inline bool StagesLocal(const StepView& view) {
  return !view.local_out.empty() && view.local_out.data != view.local_in.data;
}

// What a carrier that no ranks of this job can have summed up is: `what`, and what to look at.
inline Status CorruptCarrier(std::string what) {
  return Status(gwDataCorrupt, std::move(what),
                "Check that all ranks run the same version and the same spec");
}

// e_out = e_in, or zeros where there is none: the gradient is not folded in.
inline void KeepResidual(const StepView& view) {
  if (view.e_out.empty() || view.e_out.data == view.e_in.data) return;
  const auto bytes = static_cast<size_t>(view.e_out.bytes());
  if (view.e_in.empty()) {
    std::memset(view.e_out.data, 0, bytes);
  } else {
    std::memcpy(view.e_out.data, view.e_in.data, bytes);
  }
}

// local_out = local_in.
inline void KeepLocal(const StepView& view) {
  if (!StagesLocal(view)) return;
  std::memcpy(view.local_out.data, view.local_in.data, static_cast<size_t>(view.local_out.bytes()));
}

// out = NaN everywhere.
inline void Spoil(const DecodeJob& job) {
  for (int64_t i = 0; i < job.elems; ++i) ref::Emit(job, i, std::bit_cast<float>(kNanBits));
}

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_CARRIER_JOBS_H_
