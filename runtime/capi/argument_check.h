// Checks of arguments that several functions of the C API have in common.
#ifndef GRADWIRE_RUNTIME_CAPI_ARGUMENT_CHECK_H_
#define GRADWIRE_RUNTIME_CAPI_ARGUMENT_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/status.h"
#include "gradwire/gradwire.h"

namespace gradwire {

StatusOr<DType> CheckedType(gwDataType_t datatype);
// `count` elements for each of `parts` must not overflow.
Status CheckCount(size_t count, DType dtype, int64_t parts);
Status CheckStream(gwStream_t stream);
// Null buffers are somebody else's.
Status CheckAligned(const void* buffer, DType dtype);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_ARGUMENT_CHECK_H_
