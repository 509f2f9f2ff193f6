// What measurements ask of a communicator beside the calls they time, through the public C API.
#ifndef GRADWIRE_CLI_MEASURE_COMM_CALLS_H_
#define GRADWIRE_CLI_MEASURE_COMM_CALLS_H_

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "base/status.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// Success, or the library's own words about what failed on `comm`.
Status CheckedResult(gwComm_t comm, gwResult_t result);

// In place, exact, equal on all ranks; collective.
Status AllReduceValues(gwComm_t comm, std::span<double> values, gwRedOp_t op);

// What gwCommGetStats and gwCommGetLedger tell of this rank. gwInternalError: no JSON object.
StatusOr<nlohmann::json> ReadStats(gwComm_t comm);
StatusOr<nlohmann::json> ReadLedger(gwComm_t comm);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_COMM_CALLS_H_
