// One collective of the public C API with all its arguments but the arrays.
#ifndef GRADWIRE_CLI_PERF_PERF_OPERATION_H_
#define GRADWIRE_CLI_PERF_PERF_OPERATION_H_

#include <string>

#include "base/status.h"
#include "cli/perf/perf_case.h"
#include "gradwire/gradwire.h"

namespace gradwire {

class PerfOperation {
 public:
  // `comm` outlives this.
  PerfOperation(gwComm_t comm, const PerfCase& c, int ranks);
  PerfOperation(const PerfOperation&) = delete;
  PerfOperation& operator=(const PerfOperation&) = delete;
  // Gives a registered tensor back.
  ~PerfOperation();

  // Before the first Run; with a codec registers a tensor of this name, which is used once in a
  // communicator's life. Equal on all ranks.
  Status Prepare(const std::string& name);

  // Complete on return.
  gwResult_t Run(const void* send, void* recv);

 private:
  gwResult_t RunTensor(const void* send, void* recv);

  const gwComm_t comm_;
  const PerfCase case_;
  const size_t count_;
  gwTensor_t tensor_ = nullptr;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_OPERATION_H_
