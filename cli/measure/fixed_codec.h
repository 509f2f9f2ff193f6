#ifndef GRADWIRE_CLI_MEASURE_FIXED_CODEC_H_
#define GRADWIRE_CLI_MEASURE_FIXED_CODEC_H_

#include <string>

#include "base/status.h"
#include "compress/registry.h"

namespace gradwire {

// The codec of a spec. `auto` is a spec too, but names none: the error tells how to see what it
// does.
StatusOr<Codec> MakeFixedCodec(const std::string& spec);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_FIXED_CODEC_H_
