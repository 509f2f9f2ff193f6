#include "base/dtype.h"

#include <array>

namespace gradwire {
namespace {

constexpr std::array<std::string_view, kDTypes> kNames = {
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"};
constexpr std::array<std::string_view, kReduceOps> kOpNames = {"sum", "prod", "max", "min", "avg"};

template <typename Enum, size_t kCount>
std::optional<Enum> Find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }
std::string_view Name(ReduceOp op) { return kOpNames[static_cast<size_t>(op)]; }

std::optional<DType> DTypeFromName(std::string_view name) { return Find<DType>(kNames, name); }
std::optional<ReduceOp> ReduceOpFromName(std::string_view name) {
  return Find<ReduceOp>(kOpNames, name);
}

std::optional<DType> DTypeFromInt(int64_t value) {
  if (value < 0 || value >= kDTypes) return std::nullopt;
  return static_cast<DType>(value);
}

std::optional<ReduceOp> ReduceOpFromInt(int64_t value) {
  if (value < 0 || value >= kReduceOps) return std::nullopt;
  return static_cast<ReduceOp>(value);
}

}  // namespace gradwire
