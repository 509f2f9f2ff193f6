// What can be wrong with a machine or a process, each as a check of its own.
#ifndef GRADWIRE_CLI_INFO_DOCTOR_CHECKS_H_
#define GRADWIRE_CLI_INFO_DOCTOR_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace gradwire {

enum class Health : uint8_t {
  kOk,
  kWarning,  // works, but not as well as it could
  kFailure,  // something that was asked for cannot work
};

struct HealthFinding {
  std::string check;  // what was looked at, in a word or two
  Health health = Health::kOk;
  std::string what;    // what was found
  std::string advice;  // what to do; empty if nothing
};

// Judgements, without looking at the machine.
// `folder`: where UCX makes its shared memory.
HealthFinding JudgeSharedMemory(const std::string& folder, int64_t free_bytes, int ranks);
HealthFinding JudgeCores(int cores, int ranks);
HealthFinding JudgeOpenFiles(int64_t limit, int ranks);
// `is_chosen`: by the settings; else others can take its place.
HealthFinding JudgeTransport(const std::string& name, const Status& usable, bool is_chosen);
// `loaded`: how reading the settings went. A finding each for the error and every warning.
std::vector<HealthFinding> JudgeSettings(const Status& loaded,
                                         const std::vector<std::string>& warnings);

// Looks at this machine and this process's environment; `ranks` are those to be run here.
std::vector<HealthFinding> Examine(int ranks);

std::string FindingsText(const std::vector<HealthFinding>& findings);
std::string FindingsJson(const std::vector<HealthFinding>& findings);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_INFO_DOCTOR_CHECKS_H_
