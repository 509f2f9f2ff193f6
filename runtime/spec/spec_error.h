// Errors of specs where these may also be "auto": settings and registered tensors.
#ifndef GRADWIRE_RUNTIME_SPEC_SPEC_ERROR_H_
#define GRADWIRE_RUNTIME_SPEC_SPEC_ERROR_H_

#include <string_view>

#include "base/status.h"

namespace gradwire {

// The error of MakeCodec. Where it is that no codec is called so, "auto" is among the names that
// its hint suggests and lists.
Status WithAutoAmongCodecs(Status error, std::string_view spec);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SPEC_SPEC_ERROR_H_
