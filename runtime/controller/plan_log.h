// The lines of a plan log, JSON objects: the job, what was decided from, what was decided, the end.
// Numbers are written so that they read back as they were.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/controller/decide.h"

namespace gradwire {

// Of the lines of a job, an input and a decision.
inline constexpr int kPlanLogFormat = 5;

// A job begins anew: what was remembered is forgotten.
std::string JobLine(const JobFacts& job);
// Behind a job: it is resumed from EncodeKnowledge.
std::string KnowledgeLine(std::string_view knowledge);
std::string InputLine(const DecideInput& input);
// After the line of the input that it was made from.
std::string DecisionLine(const Decision& decision);
// The last one: how many inputs there were.
std::string EndLine(int64_t inputs);

// A line stands in the log with a checksum of itself and all lines before it, so that none can be
// altered, added or left out. One object for all lines of a log, in order.
class PlanLogSeal {
 public:
  std::string Sealed(std::string line);
  // The line that was sealed; nothing where it does not follow the ones before.
  std::optional<std::string> Opened(const std::string& sealed);

 private:
  uint32_t checksum_ = 0;  // of the lines so far
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_H_
