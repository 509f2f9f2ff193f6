// For tests: the numbers of a tensor's state.
#ifndef GRADWIRE_RUNTIME_STATE_STATE_VALUES_H_
#define GRADWIRE_RUNTIME_STATE_STATE_VALUES_H_

#include <cstdint>
#include <vector>

#include "base/view.h"

namespace gradwire {

// Of float32.
inline std::vector<float> Values(ConstView view) {
  return {view.as<float>(), view.as<float>() + view.elems};
}
inline void Fill(View view, float value) {
  for (int64_t i = 0; i < view.elems; ++i) view.as<float>()[i] = value;
}

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_STATE_STATE_VALUES_H_
