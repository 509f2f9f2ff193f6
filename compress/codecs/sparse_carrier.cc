#include "compress/codecs/sparse_carrier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

// What is read, and read again for its error, stays in the first-level cache.
constexpr int64_t kCachedElems = 2048;

// Rounding to whole elements that changes the bytes by more than a tenth is worth a word.
constexpr double kNotableRounding = 0.1;

}  // namespace

int64_t SelectedElems(double density, int64_t elems) {
  return std::llround(density * static_cast<double>(elems));
}

Status CheckDensity(double density, int64_t elems) {
  if (elems == 0 || SelectedElems(density, elems) > 0) return Status();
  double least = 0.5 / static_cast<double>(elems);
  while (SelectedElems(least, elems) == 0) least = std::nextafter(least, kMaxDensity);
  auto enough = static_cast<int64_t>(0.5 / density);
  while (SelectedElems(density, enough) == 0) ++enough;
  return Status(
      gwInvalidArgument,
      "density=" + FormatReal(density) + " selects none of " + std::to_string(elems) + " elements",
      "Accepted for this tensor: " + FormatReal(least) + " to " + FormatReal(kMaxDensity) +
          "; min_numel=" + std::to_string(enough) + " lets smaller ones travel as `none`");
}

Status CheckSelection(double density, const TensorMeta& meta) {
  if (meta.elems > kTopkMaxElems) {
    return Status(gwInvalidArgument, "a sparse method takes tensors of at most 2^32 - 1 elements");
  }
  return CheckDensity(density, meta.elems);
}

std::string NoteOfSelection(double density, const TensorMeta& meta) {
  const double wanted = density * static_cast<double>(meta.elems);
  const int64_t selected = SelectedElems(density, meta.elems);
  if (std::fabs(static_cast<double>(selected) - wanted) <= kNotableRounding * wanted) return {};
  return "density " + FormatReal(density) + " is rounded to " + std::to_string(selected) + " of " +
         std::to_string(meta.elems) + " elements";
}

bool SplitInput(const InputJob& job, std::span<const uint32_t> indices, float sent, float* values) {
  if (job.stats == nullptr && job.e_out == nullptr) {
    for (uint32_t index : indices) *values++ = ref::Input(job, index);
    return true;
  }
  alignas(64) float scratch[kCachedElems];
  EncodeStats sums;
  auto index = indices.begin();
  for (int64_t first = 0; first < job.elems; first += kCachedElems) {
    const int64_t elems = std::min(kCachedElems, job.elems - first);
    InputJob piece = job.Sub(first, elems);
    if (job.e_out == nullptr) piece.e_out = scratch;
    const EncodeStats stats = StatsOfInput(piece);
    sums.sum_p2 += stats.sum_p2;
    sums.absmax = std::max(sums.absmax, stats.absmax);
    sums.nonfinite += stats.nonfinite;
    for (; index != indices.end() && *index < first + elems; ++index) {
      float& e = piece.e_out[*index - first];
      *values++ = e;
      e -= sent * e;
    }
    if (job.stats != nullptr) sums.sum_err2 += EnergyOf(piece.e_out, elems);
  }
  if (job.stats == nullptr) return sums.nonfinite == 0;
  job.stats->absmax = std::max(job.stats->absmax, sums.absmax);
  job.stats->nonfinite += sums.nonfinite;
  if (sums.nonfinite > 0) return false;
  job.stats->sum_p2 += sums.sum_p2;
  job.stats->sum_err2 += sums.sum_err2;
  return true;
}

void Scatter(const DecodeJob& job, std::span<const uint32_t> indices, const std::byte* values) {
  if (job.to == DecodeTo::kStore && job.elems > 0) {
    std::memset(job.out, 0, static_cast<size_t>(job.elems * SizeOf(job.dtype)));
  }
  for (uint32_t index : indices) {
    ref::Emit(job, index, ref::LoadAs<float>(values));
    values += sizeof(float);
  }
}

}  // namespace gradwire
