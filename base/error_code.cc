#include "base/error_code.h"

#include <string_view>

namespace gradwire {

bool IsErrorCode(int32_t code) {
  // The largest value that the conversion is defined for, and no code of ours.
  constexpr int32_t kNoCode = 127;
  if (code <= gwSuccess || code >= kNoCode) return false;
  const std::string_view unknown = ResultText(static_cast<gwResult_t>(kNoCode));
  return ResultText(static_cast<gwResult_t>(code)) != unknown;
}

}  // namespace gradwire
