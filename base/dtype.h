// Element types, as in gwDataType_t and so as in ncclDataType_t.
#ifndef GRADWIRE_BASE_DTYPE_H_
#define GRADWIRE_BASE_DTYPE_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "gradwire/gradwire.h"

namespace gradwire {

enum class DType : int32_t {
  kInt8 = gwInt8,
  kUint8 = gwUint8,
  kInt32 = gwInt32,
  kUint32 = gwUint32,
  kInt64 = gwInt64,
  kUint64 = gwUint64,
  kFloat16 = gwFloat16,
  kFloat32 = gwFloat32,
  kFloat64 = gwFloat64,
  kBfloat16 = gwBfloat16,
};
inline constexpr int kDTypes = GW_NUM_TYPES;

enum class ReduceOp : int32_t {
  kSum = gwSum,
  kProd = gwProd,
  kMax = gwMax,
  kMin = gwMin,
  kAvg = gwAvg
};
inline constexpr int kReduceOps = GW_NUM_OPS;

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUint8: return 1;
    case DType::kFloat16:
    case DType::kBfloat16: return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32: return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64: return 8;
  }
  return 0;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64 ||
         dtype == DType::kBfloat16;
}

// Names as nccl-tests prints them: "float", "bfloat16", "int32", ...
std::string_view Name(DType dtype);
std::string_view Name(ReduceOp op);
std::optional<DType> DTypeFromName(std::string_view name);
std::optional<ReduceOp> ReduceOpFromName(std::string_view name);

// Checks a value that came through the C API or the wire.
std::optional<DType> DTypeFromInt(int64_t value);
std::optional<ReduceOp> ReduceOpFromInt(int64_t value);

// A set of element types.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_ |= 1u << static_cast<int>(t);
  }
  constexpr bool contains(DType t) const { return (bits_ >> static_cast<int>(t)) & 1u; }

 private:
  uint32_t bits_ = 0;
};

inline constexpr DTypeSet kFloatTypes = {DType::kFloat16, DType::kBfloat16, DType::kFloat32};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_DTYPE_H_
