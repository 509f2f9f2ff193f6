// A diagnosis as people and programs read it.
#ifndef GRADWIRE_CLI_DIAGNOSE_DIAGNOSIS_REPORT_H_
#define GRADWIRE_CLI_DIAGNOSE_DIAGNOSIS_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/job_record.h"

namespace gradwire {

// The last operation a rank is known to have submitted.
struct LastOperation {
  OpPosition at;
  OpOnRank op;
};
std::vector<std::optional<LastOperation>> LastOperations(const JobRecord& job);

// One event of one rank, by time of the ranks' wall clocks, which may differ between hosts.
struct TimedEntry {
  int64_t wall_ns = 0;
  int rank = 0;
  const RecorderEntry* entry = nullptr;  // into the job
};
// The last `count` of all ranks, oldest first.
std::vector<TimedEntry> LastEntries(const JobRecord& job, int64_t count);

// The verdict, then tables; `last` further events at the end.
std::string DiagnosisText(const JobRecord& job, const Diagnosis& diagnosis, int64_t last);

// The same as one JSON object, "schema_version" 1.
std::string DiagnosisJson(const JobRecord& job, const Diagnosis& diagnosis, int64_t last);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_DIAGNOSE_DIAGNOSIS_REPORT_H_
