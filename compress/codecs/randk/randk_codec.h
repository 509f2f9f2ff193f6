// Codec `randk`: the same few elements on all ranks, drawn at random in every step.
#ifndef GRADWIRE_COMPRESS_CODECS_RANDK_RANDK_CODEC_H_
#define GRADWIRE_COMPRESS_CODECS_RANDK_RANDK_CODEC_H_

#include <cstdint>
#include <span>

#include "base/rng.h"
#include "compress/registry.h"

namespace gradwire {

// Contractive with feedback=on, the default; with feedback=off the sum is scaled so that it is
// unbiased.
CodecRow RandkRow();

// Draws indices.size() <= elems < 2^32 distinct indices below `elems`, ascending, each index
// equally likely: the tensor as a circle, begun at a random place, is cut into as many parts, equal
// but for one element, and each part gives one index. A function of the dither's seed, tensor and
// step.
void DrawIndices(const Dither& dither, int64_t elems, std::span<uint32_t> indices);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_RANDK_RANDK_CODEC_H_
