#include "collectives/schemes/part.h"

#include <algorithm>
#include <numeric>

#include "base/numeric.h"

namespace gradwire {

void KeepWhereNotFinite(ConstView out, ConstView e_in, View e_out) {
  for (int64_t i = 0; i < out.elems; ++i) {
    if (CountNonFinite(out.Sub(i, 1)) == 0) continue;
    e_out.as<float>()[i] = e_in.empty() ? 0.0f : e_in.as<float>()[i];
  }
}

int64_t CutElemsOf(const TensorPart& part) {
  return std::lcm(kCutElems,
                  part.codec == nullptr ? part.quantum_elems : part.codec->traits().quantum_elems);
}

bool IsWhole(const TensorPart& part) {
  return part.method != nullptr && part.method->unit() == CarrierUnit::kTensor;
}

std::vector<std::vector<Piece>> CutIntoSlices(std::span<const TensorPart> parts,
                                              int64_t slice_elems) {
  std::vector<std::vector<Piece>> slices;
  std::vector<Piece> riders;
  int64_t room = 0;  // elements left in the last slice
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t elems = parts[i].grad.elems;
    if (parts[i].rides) {
      riders.push_back({.part = static_cast<int>(i), .elems = elems});
      continue;
    }
    const int64_t cut = IsWhole(parts[i]) ? elems : CutElemsOf(parts[i]);
    for (int64_t first = 0; first < elems;) {
      const int64_t left = elems - first;
      const int64_t take = left <= room ? left : room / cut * cut;
      if (take == 0) {
        slices.emplace_back();
        room = std::max(slice_elems, cut);
        continue;
      }
      slices.back().push_back({.part = static_cast<int>(i), .first = first, .elems = take});
      first += take;
      room -= std::min((take + kCutElems - 1) / kCutElems * kCutElems, room);
    }
  }
  // The last slice is the shortest, as a rule.
  if (slices.empty() && !riders.empty()) slices.emplace_back();
  if (!slices.empty()) slices.back().insert(slices.back().end(), riders.begin(), riders.end());
  return slices;
}

std::vector<std::vector<Piece>> CutShardsIntoSlices(const TensorPart& part, int world_size,
                                                    int64_t slice_elems) {
  const int64_t shard = part.grad.elems / world_size;
  const int64_t cut = CutElemsOf(part);
  const int64_t longest = std::max(slice_elems / world_size / cut * cut, cut);
  std::vector<std::vector<Piece>> slices;
  for (int64_t first = 0; first < shard; first += longest) {
    std::vector<Piece>& slice = slices.emplace_back();
    for (int rank = 0; rank < world_size; ++rank)
      slice.push_back({.first = rank * shard + first, .elems = std::min(longest, shard - first)});
  }
  return slices;
}

}  // namespace gradwire
