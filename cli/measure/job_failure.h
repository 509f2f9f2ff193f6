// Which of the ranks' errors a job that failed tells of.
#ifndef GRADWIRE_CLI_MEASURE_JOB_FAILURE_H_
#define GRADWIRE_CLI_MEASURE_JOB_FAILURE_H_

#include <mutex>

#include "base/status.h"

namespace gradwire {

// Whether an error is what a rank meets when another one leaves or aborts, whatever made it do so.
bool IsConsequence(const Status& status);

// Keeps the first error that is not merely what another rank's error does to the others; the first
// of all where there are only such.
class JobFailure {
 public:
  // No effect on success. Any thread.
  void Note(const Status& status);

  // Success if no error was noted. Any thread.
  Status first() const;

 private:
  mutable std::mutex mutex_;
  Status kept_;  // guarded by mutex_
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_JOB_FAILURE_H_
