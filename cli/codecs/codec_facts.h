// What `gradwire codecs` tells of a spec, worked out from the codec itself.
#ifndef GRADWIRE_CLI_CODECS_CODEC_FACTS_H_
#define GRADWIRE_CLI_CODECS_CODEC_FACTS_H_

#include <string>
#include <vector>

#include "compress/registry.h"

namespace gradwire {

struct CodecFacts {
  std::string spec;
  std::string scheme;      // linear: sums of carriers; two_shot: payloads to owners; gather: to all
  std::string reduces_as;  // sum, sum at agreed places, sum of integers, payload
  double bits_per_elem = 0;  // of a rank's contribution, gathered ones n/2 times
  bool unbiased = false, feedback = false;
  OptimizerAdvice advice;
};

// Every spec that the conformance tests run, for a matrix of 1024 x 1024 float32 at `ranks` ranks.
std::vector<CodecFacts> ListCodecFacts(int ranks);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_CODECS_CODEC_FACTS_H_
