// What methods that send a few elements of a tensor share: values at an ascending list of indices,
// and the residual that keeps all others.
//
// The whole tensor is one block: where any rank has an element that is not finite, all of the
// output is NaN on all ranks, and residuals stay as they were.
#ifndef GRADWIRE_COMPRESS_CODECS_SPARSE_CARRIER_H_
#define GRADWIRE_COMPRESS_CODECS_SPARSE_CARRIER_H_

#include <cstdint>
#include <span>
#include <string>

#include "compress/carrier_method.h"
#include "compress/kernels/kernel_job.h"

namespace gradwire {

// The range of a spec's density. The least selects one element of a tensor of 500 million.
inline constexpr double kMinDensity = 1e-9, kMaxDensity = 1, kDefaultDensity = 0.01;

// round(density * elems).
int64_t SelectedElems(double density, int64_t elems);

// gwInvalidArgument where the density selects nothing of a tensor that is not empty.
Status CheckDensity(double density, int64_t elems);

// Likewise, and where indices have more than 32 bits.
Status CheckSelection(double density, const TensorMeta& meta);

// CarrierMethod::Note: how many elements are selected where that is far from the density.
std::string NoteOfSelection(double density, const TensorMeta& meta);

// Splits p, in one pass, into what is sent and what is kept: values[j] = p at indices[j]; e_out,
// unless it is null, is p - sent * p at the indices and p elsewhere. Adds the statistics. False
// where an element is not finite: e_out is then not to be used, and no sums are added. Without
// statistics (null; for an input that is known to be finite) and e_out only the indices are read.
bool SplitInput(const InputJob& job, std::span<const uint32_t> indices, float sent, float* values);

// out = values * out_scale at the indices, zero elsewhere; kAdd: adds the values to out there.
// `values`: a float32 for each index, of any alignment.
void Scatter(const DecodeJob& job, std::span<const uint32_t> indices, const std::byte* values);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_SPARSE_CARRIER_H_
