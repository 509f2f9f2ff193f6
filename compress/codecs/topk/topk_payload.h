// Top-k as a payload: a shard's owner gets the largest elements of each rank, adds them, and sends
// the largest of the sum to all.
#ifndef GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_PAYLOAD_H_
#define GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_PAYLOAD_H_

#include <cstdint>
#include <memory>

#include "compress/payload_codec.h"

namespace gradwire {

// Elements are selected block by block, so that shards can be cut. The largest that schemes accept:
// the more a block has, the less it matters that none sends more than its share.
inline constexpr int64_t kTopkBlockElems = 4096;

// Half an element of a block.
inline constexpr double kTopkMinPayloadDensity = 0.5 / kTopkBlockElems;

// Of each block, the last of a tensor may be shorter, the round(density * its elements) of largest
// magnitude, but at least one. Any thread.
std::shared_ptr<const PayloadCodec> MakeTopkPayload(double density);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_TOPK_TOPK_PAYLOAD_H_
