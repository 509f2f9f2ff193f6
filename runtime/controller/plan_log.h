// The lines of a plan log, JSON objects: the job, what was decided from, what was decided. Numbers
// are written so that they read back as they were.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_

#include <string>
#include <string_view>

#include "runtime/controller/decide.h"

namespace gradwire {

// A job begins anew: what was remembered is forgotten.
std::string JobLine(const JobFacts& job);
// Behind a job: it is resumed from EncodeKnowledge.
std::string KnowledgeLine(std::string_view knowledge);
std::string InputLine(const DecideInput& input);
// After the line of the input that it was made from.
std::string DecisionLine(const Decision& decision);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_
