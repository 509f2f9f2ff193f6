#include "collectives/reduce/reduce.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "base/numeric.h"
#include "collectives/reduce/kernels.h"
#include "compress/kernels/dispatch.h"

namespace gradwire {
namespace {

int KernelOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return 0;
    case ReduceOp::kProd: return 1;
    case ReduceOp::kMax: return 2;
    case ReduceOp::kMin: return 3;
  }
  return 0;
}

const ReduceKernels& ActiveKernels() {
  // Baseline stands for the reference and for what a processor without avx2 runs.
  static const KernelTable<const ReduceKernels*> table = {
      {&kBaselineReduceKernels, nullptr, &kAvx2ReduceKernels, &kAvx512ReduceKernels},
      [](const ReduceKernels* const& k) { return k != nullptr && (*k)[0][0] != nullptr; }};
  return *table.Active();
}

// Views of the caller are aligned, so this may use plain pointers.
template <typename T>
void Scale(View values, int world_size) {
  T* x = values.as<T>();
  if constexpr (std::is_floating_point_v<T>) {
    const T factor = T{1} / static_cast<T>(world_size);
    for (int64_t i = 0; i < values.elems; ++i) x[i] *= factor;
  } else {
    // In 64 bits: an 8-bit divisor could not hold every world size.
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    const Wide divisor = static_cast<Wide>(world_size);
    for (int64_t i = 0; i < values.elems; ++i)
      x[i] = static_cast<T>(static_cast<Wide>(x[i]) / divisor);
  }
}

}  // namespace

void ReduceInto(DType dtype, ReduceOp op, ConstBytes a, ConstBytes b, Bytes out) {
  assert(a.size == out.size && b.size == out.size && out.size % SizeOf(dtype) == 0);
  const ReduceKernel kernel = ActiveKernels()[static_cast<int>(dtype)][KernelOp(op)];
  kernel(a.data, b.data, out.data, out.size / SizeOf(dtype));
}

void ScaleAvg(DType dtype, View values, int world_size) {
  switch (dtype) {
    case DType::kInt8: return Scale<int8_t>(values, world_size);
    case DType::kUint8: return Scale<uint8_t>(values, world_size);
    case DType::kInt32: return Scale<int32_t>(values, world_size);
    case DType::kUint32: return Scale<uint32_t>(values, world_size);
    case DType::kInt64: return Scale<int64_t>(values, world_size);
    case DType::kUint64: return Scale<uint64_t>(values, world_size);
    case DType::kFloat64: return Scale<double>(values, world_size);
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kBfloat16: return ScaleInto(values, 1.0f / static_cast<float>(world_size), values);
  }
}

}  // namespace gradwire
