#include "collectives/schemes/part.h"

#include <algorithm>

namespace gradwire {

std::vector<std::vector<Piece>> CutIntoSlices(std::span<const TensorPart> parts,
                                              int64_t slice_elems) {
  std::vector<std::vector<Piece>> slices;
  int64_t room = 0;  // elements left in the last slice
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t elems = parts[i].grad.elems;
    for (int64_t first = 0; first < elems;) {
      if (room == 0) {
        slices.emplace_back();
        room = slice_elems;
      }
      const int64_t take = std::min(elems - first, room);
      slices.back().push_back({.part = static_cast<int>(i), .first = first, .elems = take});
      first += take;
      room -= std::min((take + kCutElems - 1) / kCutElems * kCutElems, room);
    }
  }
  return slices;
}

}  // namespace gradwire
