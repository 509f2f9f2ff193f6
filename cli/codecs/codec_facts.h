// What `gradwire codecs` tells of a spec, worked out from the codec itself.
#ifndef GRADWIRE_CLI_CODECS_CODEC_FACTS_H_
#define GRADWIRE_CLI_CODECS_CODEC_FACTS_H_

#include <string>
#include <vector>

#include "compress/registry.h"

namespace gradwire {

struct CodecFacts {
  std::string spec;
  std::string scheme;  // linear: sums of carriers; two_shot: payloads to owners; gather: to all
  // What a sum of encodings is. R0: the encoding of the sum, by a rule known to all beforehand.
  // R1: likewise, once the ranks have agreed on indices or a basis. R2: exactly that, in integers
  // and in any order. R4: nothing, so that an owner decodes, adds and encodes once more. R5:
  // nothing, so that all get everything. It belongs to the spec, whose scheme is one of these.
  std::string reduce_class;
  std::string reduces_as;    // sum, sum where agreed, sum of integers, payload
  std::string refused;       // why so many ranks cannot use it; empty: they can
  double bits_per_elem = 0;  // of a rank's contribution, gathered ones n/2 times
  bool unbiased = false, feedback = false;
  OptimizerAdvice advice;
};

// The specs that people use of every codec, for a matrix of 1024 x 1024 float32 at `ranks` ranks.
std::vector<CodecFacts> ListCodecFacts(int ranks);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_CODECS_CODEC_FACTS_H_
