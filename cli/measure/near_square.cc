#include "cli/measure/near_square.h"

#include <cmath>

namespace gradwire {

std::array<int64_t, 2> NearSquare(int64_t elems) {
  auto rows = static_cast<int64_t>(std::sqrt(static_cast<double>(elems)));
  while (rows > 1 && elems % rows != 0) --rows;
  return rows > 0 ? std::array{rows, elems / rows} : std::array<int64_t, 2>{0, 0};
}

}  // namespace gradwire
