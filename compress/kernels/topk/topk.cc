// Selection by candidates. A sample, or what was selected before, gives a floor that a few more
// than k elements should reach; one pass appends the elements that do; what is beyond k is dropped.
//
// The floor only makes this fast. Too low a floor fills the candidates before the end: all but the
// k largest are dropped, and the smallest kept is the new floor. Too high a floor leaves fewer than
// k: another pass starts with a sample's, the last with the floor zero. Room for twice k bounds the
// drops to elems / k of O(k) each.
#include "compress/kernels/topk/topk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/kernel_job.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk_kernels.h"

namespace gradwire {
namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 14;
// At least so many: a sample costs a cache line, an element of the scan 1/16 of one.
constexpr int64_t kElemsPerSample = 16;

// Twice k; of small k the floor is less certain, hence room for as many as there are samples. Never
// more than all elements, with which a scan need not stop.
int64_t Capacity(int64_t elems, int64_t k) {
  return std::min(2 * k + kMaxSamples, elems) + kTopkRoom;
}

TopkCandidates Carve(Bytes workspace, int64_t capacity) {
  auto* bits = reinterpret_cast<uint32_t*>(workspace.data);
  return {.bits = bits, .index = bits + capacity, .capacity = capacity};
}

struct Rank {
  uint32_t bits;  // what is larger is among the k largest, what is smaller is not
  int64_t equal;  // how many that equal it are, at most
};

// Digit by digit, from the top of what the candidates differ in, until all that begin as the k-th
// are among the largest; most differ from it in the first. A few candidates have small digits, so
// that counts of nothing cost no more than they do. There is a candidate, and k of them.
Rank FindKth(const TopkCandidates& found, int64_t k) {
  const std::span<const uint32_t> all(found.bits, static_cast<size_t>(found.count));
  const auto [smallest, largest] = std::minmax_element(all.begin(), all.end());
  uint32_t low = *smallest;  // of the k-th largest, which is below low + 2^width
  constexpr int kMostDigitBits = 11;
  const int digit_bits = std::clamp<int>(std::bit_width(all.size()), 6, kMostDigitBits);
  for (int width = std::bit_width(*largest - low); width > 0;) {
    const int shift = std::max(0, width - digit_bits);
    const uint32_t bins = 1u << (width - shift);
    uint32_t counts[1 << kMostDigitBits];
    std::fill_n(counts, bins, 0u);
    for (uint32_t bits : all) {
      const uint32_t bin = (bits - low) >> shift;
      if (bin < bins) ++counts[bin];
    }
    uint32_t bin = bins - 1;
    for (; counts[bin] < k; --bin) k -= counts[bin];
    low += bin << shift;
    if (counts[bin] == k) break;
    width = shift;
  }
  return {.bits = low, .equal = k};
}

// Drops all but the k <= count largest. Returns the bits of the smallest kept.
uint32_t KeepLargest(int64_t k, TopkCandidates* found) {
  Rank kth = FindKth(*found, k);
  int64_t kept = 0;
  for (int64_t i = 0; i < found->count; ++i) {
    const uint32_t bits = found->bits[i];
    const int64_t equal = bits == kth.bits && kth.equal > 0 ? 1 : 0;
    kth.equal -= equal;
    found->bits[kept] = bits;
    found->index[kept] = found->index[i];
    kept += bits > kth.bits ? 1 : equal;
  }
  found->count = kept;
  return kth.bits;
}

// A floor that at least k elements reach, most probably.
uint32_t SampleFloor(const InputJob& input, int64_t k, TopkCandidates* found) {
  const int64_t samples = TopkSamples(input.elems);
  if (samples == 0) return 0;
  const double expected =
      static_cast<double>(samples) * static_cast<double>(k) / static_cast<double>(input.elems);
  // Four standard deviations of a Poisson number, and something where that is not near normal.
  const auto rank = static_cast<int64_t>(std::ceil(expected + 4 * std::sqrt(expected) + 4));
  if (rank >= samples) return 0;
  for (int64_t i = 0; i < samples; ++i) {
    const float p = ref::Input(input, TopkSampleAt(i, input.elems));
    found->bits[i] = std::min(ref::MagnitudeBits(p), kInfBits);
  }
  found->count = samples;
  return FindKth(*found, rank).bits;
}

// Leaves the k largest of all that reach the floor, or fewer where there are fewer. Returns how
// many there were, at least.
int64_t KeepLargestOfInput(const InputJob& input, int64_t k, uint32_t floor,
                           TopkCandidates* found) {
  const TopkScan scan = ActiveTopkScan();
  found->count = 0;
  if (input.stats != nullptr) *input.stats = {};
  for (int64_t at = scan(input, 0, floor, found); at < input.elems;) {
    // An equal one that comes later is smaller.
    floor = KeepLargest(k, found) + 1;
    at = scan(input, at, floor, found);
  }
  const int64_t reached = found->count;
  if (reached > k) KeepLargest(k, found);
  return reached;
}

// Twice what is selected reaches a floor that is of use: fewer may be too few, more cost time.
// `reached`: how many reached the last one, none: there was none.
TopkHint NextHint(const TopkCandidates& selected, TopkHint last, std::optional<int64_t> reached) {
  if (selected.count == 0) return {};
  const uint32_t smallest = *std::min_element(selected.bits, selected.bits + selected.count);
  if (smallest >= kInfBits) return {};
  constexpr uint32_t kMostSlack = 1u << 24;  // two octaves
  constexpr int64_t kSpare = 8;
  if (reached && *reached < selected.count + selected.count / 2 + kSpare)
    last.slack = std::min(2 * last.slack, kMostSlack);
  if (reached && *reached > 3 * selected.count + kSpare)
    last.slack = std::max(last.slack / 2, uint32_t{1});
  last.floor = smallest - std::min(last.slack, smallest);
  return last;
}

}  // namespace

int64_t TopkSamples(int64_t elems) {
  const auto affordable = static_cast<uint64_t>(elems / kElemsPerSample);
  return std::min(kMaxSamples, static_cast<int64_t>(std::bit_floor(affordable)));
}

int64_t TopkSampleAt(int64_t i, int64_t elems) {
  const int log2_samples = std::countr_zero(static_cast<uint64_t>(TopkSamples(elems)));
  // The golden ratio's fraction.
  const uint32_t scattered = static_cast<uint32_t>(i) * 0x9E3779B9u >> 16;
  const uint64_t place =
      (static_cast<uint64_t>(i) << 16 | scattered) * static_cast<uint64_t>(elems);
  return static_cast<int64_t>(place >> (16 + log2_samples));
}

int64_t TopkWorkspaceBytes(int64_t elems, int64_t k) {
  return 2 * static_cast<int64_t>(sizeof(uint32_t)) * Capacity(elems, k);
}

bool SelectTopk(const InputJob& in, Bytes workspace, std::span<uint32_t> out, TopkHint* hint) {
  EncodeStats scanned;
  InputJob input = in;
  if (in.stats != nullptr) input.stats = &scanned;
  const auto k = static_cast<int64_t>(out.size());
  TopkCandidates found = Carve(workspace, Capacity(in.elems, k));
  std::optional<int64_t> reached;
  if (hint != nullptr && hint->floor > 0)
    reached = KeepLargestOfInput(input, k, hint->floor, &found);
  if (!reached || *reached < k) KeepLargestOfInput(input, k, SampleFloor(input, k, &found), &found);
  if (found.count < k) KeepLargestOfInput(input, k, 0, &found);
  if (hint != nullptr) *hint = NextHint(found, *hint, reached);
  if (k > 0) std::memcpy(out.data(), found.index, out.size_bytes());
  const bool finite = found.absmax_bits < kInfBits;
  if (in.stats != nullptr) {
    scanned.absmax = std::bit_cast<float>(found.absmax_bits);
    scanned.nonfinite = finite ? 0 : 1;
    AddScanned(input, scanned, in.stats);
  }
  return finite;
}

}  // namespace gradwire
