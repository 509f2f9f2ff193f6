#include <Random123/philox.h>

#include "base/rng.h"

namespace gradwire {

std::array<uint32_t, 4> Philox(const PhiloxInput& in) {
  const philox4x32_key_t key = {{in.key[0], in.key[1]}};
  const philox4x32_ctr_t counter = {{in.counter[0], in.counter[1], in.counter[2], in.counter[3]}};
  const philox4x32_ctr_t out = philox4x32_R(10, counter, key);
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

}  // namespace gradwire
