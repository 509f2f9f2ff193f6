// The spec `auto(error=0.1,lag=1,allow="topk(0.01)")`: a tensor whose codec the controller chooses,
// out of a ladder from the lightest to the heaviest.
#ifndef GRADWIRE_RUNTIME_SPEC_AUTO_SPEC_H_
#define GRADWIRE_RUNTIME_SPEC_AUTO_SPEC_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compress/registry.h"

namespace gradwire {

// Where every ladder begins: the plain sum, and half of its bytes.
inline constexpr int kNoneRung = 0;
inline constexpr int kBf16Rung = 1;

struct Rung {
  Codec codec;
  // Of a codec without feedback: of |out - sum| / |sum| in one step. Of one with feedback: of
  // |what is kept back| / |gradient|.
  double bound = 0;
};

// A plan has a byte for each tensor's.
inline constexpr size_t kMaxRungs = 256;

struct AutoSpec {
  std::string spec;  // canonical
  std::vector<Rung> ladder;
};

bool IsAutoSpec(std::string_view spec);

// Keys: error (bound without feedback), lag (bound with it), allow (a list of further
// codecs), min_numel, exclude. gwInvalidArgument with the valid form otherwise.
StatusOr<AutoSpec> MakeAutoSpec(std::string_view spec);

// Whether it is `auto` with sane arguments, or names a codec.
Status CheckSpec(std::string_view spec);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SPEC_AUTO_SPEC_H_
