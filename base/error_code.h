// Result codes that come from others.
#ifndef GRADWIRE_BASE_ERROR_CODE_H_
#define GRADWIRE_BASE_ERROR_CODE_H_

#include <cstdint>

#include "base/status.h"

namespace gradwire {

// Whether a number from the wire is a gwResult_t, and no success.
bool IsErrorCode(int32_t code);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_ERROR_CODE_H_
