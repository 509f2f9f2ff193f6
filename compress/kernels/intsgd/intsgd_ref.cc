// The specification of integers under one scale: plain loops, element by element.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "compress/kernels/intsgd/intsgd_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {
namespace {

int32_t IntegerOf(const IntsgdShape& shape, float p, uint16_t dither) {
  const auto most = static_cast<float>(shape.most);
  const float x = std::min(std::max(p * shape.inverse_unit, -most), most);
  const float below = std::floor(x);
  const auto fraction = static_cast<int32_t>(std::nearbyint((x - below) * 65536.0f));
  return static_cast<int32_t>(below) + ((fraction + dither) >> 16);
}

void StoreInteger(DType type, int32_t q, int64_t i, std::byte* out) {
  if (type == DType::kInt8) {
    ref::StoreAs(static_cast<int8_t>(q), out + i);
  } else {
    ref::StoreAs(q, out + 4 * i);
  }
}

void EncodeRun(const IntsgdShape& shape, const EncodeJob& job) {
  float p[kRunElems];
  bool finite = true;
  for (int64_t i = 0; i < job.elems; ++i) {
    p[i] = ref::Input(job, i);
    finite &= ref::IsFinite(p[i]);
  }
  uint16_t dither[kRunElems];
  ref::FillDither(job, 0, job.elems, dither);
  for (int64_t i = 0; i < job.elems; ++i) {
    const int32_t q = finite ? IntegerOf(shape, p[i], dither[i]) : 0;
    StoreInteger(shape.type, q, i, job.out);
    if (finite) {
      ref::Finish(job, i, p[i], static_cast<float>(q) * shape.unit);
    } else {
      ref::FinishNonFinite(job, i, p[i]);
    }
  }
}

}  // namespace

void IntsgdEncodeRef(const IntsgdShape& shape, const EncodeJob& job) {
  for (int64_t first = 0; first < job.elems; first += kRunElems) {
    EncodeRun(shape,
              job.Sub(first, std::min(kRunElems, job.elems - first), first * SizeOf(shape.type)));
  }
}

bool IntsgdDecodeRef(const IntsgdShape& shape, const DecodeJob& job) {
  assert(job.to == DecodeTo::kStore);
  for (int64_t i = 0; i < job.elems; ++i) {
    const int32_t sum = shape.type == DType::kInt8 ? ref::LoadAs<int8_t>(job.payload + i)
                                                   : ref::LoadAs<int32_t>(job.payload + 4 * i);
    if (sum > shape.most_of_sum || sum < -shape.most_of_sum) return false;
    ref::Emit(job, i, static_cast<float>(sum) * shape.unit);
  }
  return true;
}

}  // namespace gradwire
