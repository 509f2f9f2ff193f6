// Ranks that did not do the same: who stands against whom, and who is right.
#ifndef GRADWIRE_RUNTIME_RECORDER_DISAGREEMENT_H_
#define GRADWIRE_RUNTIME_RECORDER_DISAGREEMENT_H_

#include <optional>

#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/job_record.h"

namespace gradwire {

// Ranks submitted different things as one operation.
bool Differs(const OpRecord& op);

// The first such operation, or step of different numbers of operations, that no later commit
// survived. The culprits are the minority; where there is none, those who do not do what all did in
// earlier steps; where that does not tell either, everybody involved.
std::optional<Finding> OperationDisagreement(const JobRecord& job);
std::optional<Finding> CountDisagreement(const JobRecord& job);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_DISAGREEMENT_H_
