// The specification of votes in packed lanes: plain loops, element by element.
#include <bit>
#include <cassert>
#include <cstring>

#include "compress/kernels/lanes/lane_ref.h"
#include "compress/kernels/lanes/sign_lanes.h"

namespace gradwire {
namespace {

template <typename T>
int SignOf(T v) {
  return static_cast<int>(v > 0) - static_cast<int>(v < 0);
}

// A block that is not finite votes for nothing.
void EncodeBlock(const SignLanes& shape, const EncodeJob& job) {
  float p[kMaxLaneBlock];
  const bool finite = ref::LoadBlock(job, p) < kInfBits;
  std::memset(job.out, 0, 4 * shape.lanes.words(job.elems));
  ref::StoreAs<uint32_t>(finite ? 0 : 1, job.out);
  for (int64_t i = 0; i < job.elems; ++i) {
    const int vote = finite ? SignOf(p[i]) : 0;
    ref::StoreField(shape.lanes, static_cast<uint32_t>(vote + 1), i,
                    job.out + shape.lanes.head_bytes());
    if (finite) {
      ref::Finish(job, i, p[i], static_cast<float>(vote));
    } else {
      ref::FinishNonFinite(job, i, p[i]);
    }
  }
}

bool DecodeBlock(const SignLanes& shape, const DecodeJob& job) {
  const auto nonfinite_ranks = ref::LoadAs<uint32_t>(job.payload);
  if (nonfinite_ranks > static_cast<uint32_t>(shape.world_size)) return false;
  const std::byte* fields = job.payload + shape.lanes.head_bytes();
  if (ref::HasStrayBits(shape.lanes, fields, job.elems)) return false;
  for (int64_t i = 0; i < job.elems; ++i) {
    const auto sum = static_cast<int32_t>(ref::LoadField(shape.lanes, fields, i));
    if (sum > shape.largest_sum()) return false;
    const int majority = SignOf(sum - shape.world_size);
    ref::Emit(job, i,
              nonfinite_ranks > 0 ? std::bit_cast<float>(kNanBits)
                                  : static_cast<float>(majority * shape.world_size));
  }
  return true;
}

}  // namespace

void SignEncodeRef(const SignLanes& shape, const EncodeJob& job) {
  for (int64_t b = 0; b < shape.lanes.blocks(job.elems); ++b) {
    EncodeBlock(shape, BlockOf(shape.lanes, job, b));
  }
}

bool SignDecodeRef(const SignLanes& shape, const DecodeJob& job) {
  assert(job.to == DecodeTo::kStore);
  for (int64_t b = 0; b < shape.lanes.blocks(job.elems); ++b) {
    if (!DecodeBlock(shape, BlockOf(shape.lanes, job, b))) return false;
  }
  return true;
}

}  // namespace gradwire
