// SliceStats: what happened to a slice, or to one tensor's pieces, summed up for the ledger.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_SLICE_STATS_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_SLICE_STATS_H_

#include <cstdint>

namespace gradwire {

struct SliceStats {
  int64_t encode_ns = 0, decode_ns = 0;
  int64_t payload_bytes = 0;  // encoded bytes this rank made
  double sum_p2 = 0;          // energy of what was encoded
  double sum_err2 = 0;        // and of what encoding lost
  double owned_p2 = 0;        // of sum_p2, that of sums that this rank encoded as their owner
  uint64_t nonfinite = 0;     // NaN and infinite elements met

  void Add(const SliceStats& other) {
    encode_ns += other.encode_ns, decode_ns += other.decode_ns,
        payload_bytes += other.payload_bytes;
    sum_p2 += other.sum_p2, sum_err2 += other.sum_err2, owned_p2 += other.owned_p2,
        nonfinite += other.nonfinite;
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_SLICE_STATS_H_
