#include "cli/perf/perf_operation.h"

#include <fmt/format.h>

#include <array>

#include "cli/measure/comm_calls.h"
#include "cli/measure/near_square.h"

namespace gradwire {

PerfOperation::PerfOperation(gwComm_t comm, const PerfCase& c, int ranks)
    : comm_(comm), case_(c), count_(static_cast<size_t>(CountOf(c, ranks))) {}

PerfOperation::~PerfOperation() {
  for (gwTensor_t tensor : tensors_) (void)gwTensorDeregister(tensor);
}

Status PerfOperation::Prepare(const std::string& name, size_t times) {
  if (case_.exact()) return Status::Ok();
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = case_.spec.c_str();
  const std::array<int64_t, 2> shape = NearSquare(static_cast<int64_t>(count_));
  for (size_t i = 0; i < times; ++i) {
    gwTensor_t tensor = nullptr;
    GW_RETURN_IF_ERROR(CheckedResult(
        comm_,
        gwTensorRegister(comm_, fmt::format("{}.{}", name, i).c_str(), shape.data(), shape.size(),
                         static_cast<gwDataType_t>(case_.dtype), &config, &tensor)));
    tensors_.push_back(tensor);
  }
  return Status::Ok();
}

gwResult_t PerfOperation::Run(std::span<const PerfBuffers> buffers) {
  if (!tensors_.empty()) return RunTensors(buffers);
  return buffers.size() == 1 ? RunExact(buffers[0]) : RunGroup(buffers);
}

gwResult_t PerfOperation::RunGroup(std::span<const PerfBuffers> buffers) {
  if (const gwResult_t started = gwGroupStart(); started != gwSuccess) return started;
  for (const PerfBuffers& each : buffers) (void)RunExact(each);  // gwGroupEnd tells of it
  return gwGroupEnd();
}

gwResult_t PerfOperation::RunExact(const PerfBuffers& buffers) {
  const auto& [send, recv] = buffers;
  const auto dtype = static_cast<gwDataType_t>(case_.dtype);
  const auto op = static_cast<gwRedOp_t>(case_.op);
  switch (case_.collective) {
    case Collective::kAllReduce: return gwAllReduce(send, recv, count_, dtype, op, comm_, nullptr);
    case Collective::kReduce:
      return gwReduce(send, recv, count_, dtype, op, case_.root, comm_, nullptr);
    case Collective::kBroadcast:
      return gwBroadcast(send, recv, count_, dtype, case_.root, comm_, nullptr);
    case Collective::kAllGather: return gwAllGather(send, recv, count_, dtype, comm_, nullptr);
    case Collective::kReduceScatter:
      return gwReduceScatter(send, recv, count_, dtype, op, comm_, nullptr);
    case Collective::kAllToAll: return gwAllToAll(send, recv, count_, dtype, comm_, nullptr);
    case Collective::kBarrier: return gwBarrier(comm_, nullptr);
  }
  return gwInternalError;
}

gwResult_t PerfOperation::RunTensors(std::span<const PerfBuffers> buffers) {
  std::vector<const void*> sends;
  std::vector<void*> recvs;
  for (const auto& [send, recv] : buffers) sends.push_back(send), recvs.push_back(recv);
  gwRequest_t request = nullptr;
  const gwResult_t submitted =
      gwAllReduceTensors(static_cast<int>(tensors_.size()), tensors_.data(), sends.data(),
                         recvs.data(), static_cast<gwRedOp_t>(case_.op), nullptr, &request);
  if (submitted != gwSuccess) return submitted;
  const gwResult_t waited = gwRequestWait(request, -1);
  (void)gwRequestFree(request);
  return waited;
}

}  // namespace gradwire
