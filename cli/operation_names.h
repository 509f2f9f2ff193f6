// Collectives, element types and reductions as users write them. An unknown name is
// gwInvalidArgument, with the nearest known one.
#ifndef GRADWIRE_CLI_OPERATION_NAMES_H_
#define GRADWIRE_CLI_OPERATION_NAMES_H_

#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "collectives/schedule.h"

namespace gradwire {

// "all-reduce", "allreduce", "all_reduce", "AllReduce": letters count, nothing else.
StatusOr<Collective> ParseCollective(std::string_view text);

// As nccl-tests names them, or as bf16, fp16, fp32, fp64, float16, float32, float64.
StatusOr<DType> ParseDType(std::string_view text);
// One, or with "all" every one.
StatusOr<std::vector<DType>> ParseDTypes(std::string_view text);
StatusOr<std::vector<ReduceOp>> ParseReduceOps(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_OPERATION_NAMES_H_
