// A collective of the public C API with all its arguments but the arrays, once or several times.
#ifndef GRADWIRE_CLI_PERF_PERF_OPERATION_H_
#define GRADWIRE_CLI_PERF_PERF_OPERATION_H_

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/perf/perf_case.h"
#include "gradwire/gradwire.h"

namespace gradwire {

struct PerfBuffers {
  const void* send;
  void* recv;
};

class PerfOperation {
 public:
  // `comm` outlives this.
  PerfOperation(gwComm_t comm, const PerfCase& c, int ranks);
  PerfOperation(const PerfOperation&) = delete;
  PerfOperation& operator=(const PerfOperation&) = delete;
  // Gives registered tensors back.
  ~PerfOperation();

  // Before the first Run, which then has so many buffers; with a codec registers a tensor for each,
  // named after this, which is used once in a communicator's life. Equal on all ranks.
  Status Prepare(const std::string& name, size_t times);

  // All of `buffers` together, as one group; complete on return.
  gwResult_t Run(std::span<const PerfBuffers> buffers);

 private:
  gwResult_t RunExact(const PerfBuffers& buffers);
  gwResult_t RunGroup(std::span<const PerfBuffers> buffers);
  gwResult_t RunTensors(std::span<const PerfBuffers> buffers);

  const gwComm_t comm_;
  const PerfCase case_;
  const size_t count_;
  std::vector<gwTensor_t> tensors_;  // none: the collective is exact
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_OPERATION_H_
