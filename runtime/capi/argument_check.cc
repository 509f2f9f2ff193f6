#include "runtime/capi/argument_check.h"

#include <fmt/format.h>

#include <optional>

namespace gradwire {

StatusOr<DType> CheckedType(gwDataType_t datatype) {
  const std::optional<DType> dtype = DTypeFromInt(datatype);
  if (dtype) return *dtype;
  return Status(gwInvalidArgument, fmt::format("{} is no data type", static_cast<int>(datatype)));
}

Status CheckCount(size_t count, DType dtype, int64_t parts) {
  int64_t total = 0;
  if (count <= static_cast<size_t>(INT64_MAX) &&
      !__builtin_mul_overflow(static_cast<int64_t>(count), parts * SizeOf(dtype), &total)) {
    return Status();
  }
  return Status(gwInvalidArgument, fmt::format("a count of {} elements overflows", count),
                "Is the count negative?");
}

Status CheckStream(gwStream_t stream) {
  if (stream == nullptr) return Status();
  return Status(gwInvalidArgument, "this build takes host buffers only", "Pass NULL as the stream");
}

Status CheckAligned(const void* buffer, DType dtype) {
  if (reinterpret_cast<uintptr_t>(buffer) % SizeOf(dtype) == 0) return Status();
  return Status(gwInvalidArgument,
                fmt::format("a buffer is not aligned to its {} bytes per element", SizeOf(dtype)));
}

}  // namespace gradwire
