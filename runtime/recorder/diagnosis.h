// Diagnose: what went wrong in a job and whose doing it was, from the recorder files that its ranks
// left behind, however they ended. A pure function.
#ifndef GRADWIRE_RUNTIME_RECORDER_DIAGNOSIS_H_
#define GRADWIRE_RUNTIME_RECORDER_DIAGNOSIS_H_

#include <string>
#include <vector>

#include "runtime/recorder/job_record.h"

namespace gradwire {

enum class FindingKind {
  kDisagree,        // ranks submitted different operations in one place
  kLost,            // a rank is gone
  kFailed,          // a rank reported an error that nobody else caused
  kNeverSubmitted,  // others wait in an operation that a rank never entered
  kAwaited,         // all entered; this is the rank the others wait for
  kNoFile,          // a rank left no readable file
  kNote,            // worth knowing, nobody's fault
};

struct Finding {
  FindingKind kind = FindingKind::kNote;
  std::vector<int> culprits;  // ascending; empty: nobody in particular
  std::string text;           // one line
};

struct Diagnosis {
  std::vector<Finding> findings;  // the most telling first
  // Those of the first finding that has any; empty: nothing points at a rank.
  std::vector<int> culprits;
  std::string verdict;  // one line
};

Diagnosis Diagnose(const JobRecord& job);

// An operation that is not complete on all ranks, or differs between them.
struct OpState {
  OpPosition at;
  std::string text;
  std::vector<int> done, open, missing, unknown;  // missing: never submitted
  bool differs = false;
};

// In order of submission: those of turns that are not over; where there are none, those of the last
// turn, unless it was committed.
std::vector<OpState> UnfinishedOps(const JobRecord& job);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_DIAGNOSIS_H_
