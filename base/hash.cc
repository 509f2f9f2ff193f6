#include "base/hash.h"

#include <xxhash.h>

namespace gradwire {

uint64_t HashBytes(ConstBytes bytes) {
  return XXH3_64bits(bytes.data, static_cast<size_t>(bytes.size));
}

uint64_t HashString(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace gradwire
