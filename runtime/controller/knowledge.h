// Knowledge: what rank 0's controller has learnt and takes along where training is saved and goes
// on later: the plan, the fits of the wire, what codecs cost and lose, what lost a trial.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_KNOWLEDGE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_KNOWLEDGE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/controller/decide.h"

namespace gradwire {

// Empty while the warm-up lasts. `memory` is of `job`.
std::string EncodeKnowledge(const JobFacts& job, const Memory& memory);

// A memory for Decide to go on from without a warm-up. Any bytes; gwMismatch: of another format or
// job, gwDataCorrupt: unreadable.
StatusOr<Memory> DecodeKnowledge(const JobFacts& job, std::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_KNOWLEDGE_H_
