// Two-shot: the direct all-reduce and reduce-scatter over encoded shards. A contribution is encoded
// once by its worker and a sum once by its owner, at any world size, and the owner's bytes reach
// every rank verbatim, so all ranks decode the same numbers.
//
// Buffers (the scheme finds them by role, payload buffers by this order):
//   input            n shards
//   output           n shards (reduce-scatter: the own one)
//   scratch          1 shard, the owner's float32 sum
//   payload_out      shard j for owner j; the own one is never used
//   payload_in       copy i from rank i, all of the own shard; the own copy is never used
//   payload_final    n results (all-reduce only)
// Steps of one kind that mean two things:
//   kEncode          from the input: a worker's, takes the residual along;
//                    from scratch: the owner's
//   kCopy, kReduce   own contribution into the sum, raw: gradient times scale plus residual
//   kDecode          into scratch: first contribution; into the output: a result
// World size 1 copies the input to the output; no codec runs.
//
// The owner adds in rank order. Sends start with the next rank and go around.
// Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_TWO_SHOT_TWO_SHOT_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_TWO_SHOT_TWO_SHOT_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeTwoShotAllReduce(int rank, int world_size, int root);
// The sum leaves raw: kCopy from scratch to the output, no second encoding.
Schedule MakeTwoShotReduceScatter(int rank, int world_size, int root);

WireTotals TwoShotAllReduceTotals(int world_size);
WireTotals TwoShotReduceScatterTotals(int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_TWO_SHOT_TWO_SHOT_H_
