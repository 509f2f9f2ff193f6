// Registered tensors, requests, steps, state.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/argument_check.h"
#include "runtime/capi/entry.h"
#include "runtime/capi/handles.h"
#include "runtime/capi/memory_check.h"

namespace gradwire {
namespace {

constexpr int kMaxDims = 32;

// What a caller passed, unchecked.
struct GroupCall {
  int count;
  const gwTensor_t* tensors;
  const void* const* send;
  void* const* recv;
  gwRedOp_t op;
  gwStream_t stream;
};

Status CheckRegistered(const gwTensor& tensor) {
  if (tensor.state != nullptr) return Status();
  return Status(gwInvalidUsage, "the tensor was deregistered",
                "Use the handle of a new gwTensorRegister");
}

Status CheckTensorBuffers(const TensorState& state, const void* send, const void* recv) {
  const auto bad = [&](const void* p) {
    return p == nullptr || reinterpret_cast<uintptr_t>(p) % SizeOf(state.dtype) != 0;
  };
  if (state.elems == 0 || (!bad(send) && !bad(recv))) return Status();
  return Status(gwInvalidArgument,
                ErrorDetail{.message = fmt::format("a buffer is null or not aligned to its {} "
                                                   "bytes per element",
                                                   SizeOf(state.dtype)),
                            .tensor = state.name});
}

// Null pointers: before anything is looked at.
Status CheckGroupHandles(const GroupCall& call, const gwRequest_t* request) {
  if (call.count < 1 || call.tensors == nullptr || call.send == nullptr || call.recv == nullptr ||
      request == nullptr) {
    return Status(gwInvalidArgument, "count must be at least 1, and no pointer null");
  }
  for (int i = 0; i < call.count; ++i) {
    if (call.tensors[i] == nullptr)
      return Status(gwInvalidArgument, fmt::format("tensor {} of the group is null", i));
  }
  return Status();
}

// Of gwTensorRegister.
Status CheckName(const char* name) {
  if (name == nullptr || *name == '\0') {
    return Status(gwInvalidArgument, "the name of a tensor is null or empty");
  }
  if (std::strpbrk(name, "\n=,;") != nullptr) {
    return Status(gwInvalidArgument, "a tensor's name holds no line break and none of = , ;");
  }
  return Status();
}

// The other arguments.
Status CheckTensor(const int64_t* shape, int ndim, std::optional<DType> dtype,
                   const gwTensor_t* tensor) {
  if (tensor == nullptr) return Status(gwInvalidArgument, "the place for the handle is null");
  if (ndim < 0 || ndim > kMaxDims) {
    return Status(gwInvalidArgument, fmt::format("ndim is {}, not in [0, {}]", ndim, kMaxDims));
  }
  if (ndim > 0 && shape == nullptr) return Status(gwInvalidArgument, "the shape is null");
  if (!dtype || !kFloatTypes.contains(*dtype)) {
    return Status(gwInvalidArgument,
                  fmt::format("it is of {}", dtype ? std::string(Name(*dtype)) : "no known type"),
                  "A registered tensor is float16, bfloat16 or float32");
  }
  return Status();
}

Status CheckOpAndStream(gwRedOp_t op, gwStream_t stream) {
  GW_RETURN_IF_ERROR(CheckStream(stream));
  if (op != gwSum && op != gwAvg) {
    return Status(gwInvalidArgument, "registered tensors are summed or averaged",
                  "Use gwSum or gwAvg");
  }
  return Status();
}

Status CheckGroup(const GroupCall& call) {
  GW_RETURN_IF_ERROR(CheckOpAndStream(call.op, call.stream));
  std::vector<BufferPair> group;
  for (int i = 0; i < call.count; ++i) {
    const gwTensor& tensor = *call.tensors[i];
    if (tensor.owner != call.tensors[0]->owner) {
      return Status(gwInvalidArgument, "the tensors belong to different communicators",
                    "Submit one group for each communicator");
    }
    GW_RETURN_IF_ERROR(CheckRegistered(tensor));
    GW_RETURN_IF_ERROR(CheckTensorBuffers(*tensor.state, call.send[i], call.recv[i]));
    group.push_back(
        {&tensor, call.send[i], call.recv[i], tensor.state->elems * SizeOf(tensor.state->dtype)});
  }
  return CheckGroupMemory(group);
}

// Before anything is submitted, for what is under way needs it.
std::unique_ptr<gwRequest> MakeRequest(gwComm_t comm) {
  return std::make_unique<gwRequest>(gwRequest{comm, comm->forks, nullptr});
}

gwResult_t SubmitGroup(const GroupCall& call, gwRequest_t* request,
                       const char* caller = __builtin_FUNCTION()) {
  if (Status s = CheckGroupHandles(call, request); !s.ok()) {
    const bool has_owner = call.tensors != nullptr && call.count > 0 && call.tensors[0] != nullptr;
    return Report(has_owner ? HandleFor(call.tensors[0]->owner) : nullptr, std::move(s), caller);
  }
  gwComm_t comm = call.tensors[0]->owner;
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse(caller);
  if (Status s = CheckGroup(call); !s.ok()) {
    return Report(comm, std::move(s).WithOp("all-reduce of tensors"));
  }
  std::vector<SubmittedTensor> submitted;
  for (int i = 0; i < call.count; ++i) {
    submitted.push_back({call.tensors[i]->state, static_cast<const std::byte*>(call.send[i]),
                         static_cast<std::byte*>(call.recv[i])});
  }
  std::unique_ptr<gwRequest> handle = MakeRequest(comm);
  StatusOr<std::unique_ptr<Request>> made =
      comm->comm->Submit(submitted, static_cast<ReduceOp>(call.op));
  if (!made.ok()) return Report(comm, Status(made.status()).WithOp("all-reduce of tensors"));
  handle->request = std::move(*made);
  *request = handle.release();
  return gwSuccess;
}

Status CheckReduceScatter(const gwTensor& tensor, const void* send, const void* recv, gwRedOp_t op,
                          gwStream_t stream) {
  GW_RETURN_IF_ERROR(CheckOpAndStream(op, stream));
  GW_RETURN_IF_ERROR(CheckRegistered(tensor));
  const TensorState& state = *tensor.state;
  GW_RETURN_IF_ERROR(CheckTensorBuffers(state, send, recv));
  const Communicator& comm = *tensor.owner->comm;
  const int64_t shard_bytes = state.elems / comm.world_size() * SizeOf(state.dtype);
  return CheckReduceScatterMemory(send, recv, shard_bytes, comm.rank(), comm.world_size())
      .WithTensor(state.name);
}

// The usual two calls: the size, then what has it. `give` writes to the room it gets if that is
// enough, and returns the bytes that are needed.
template <typename Give>
gwResult_t GiveBytes(gwComm_t comm, void* buffer, size_t* bytes, Give give,
                     const char* caller = __builtin_FUNCTION()) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse(caller);
  if (bytes == nullptr) return Report(comm, Status(gwInvalidArgument, "bytes is null"), caller);
  const Bytes room = {
      .data = static_cast<std::byte*>(buffer),
      .size = buffer == nullptr ? 0 : static_cast<int64_t>(std::min<size_t>(*bytes, INT64_MAX))};
  const StatusOr<int64_t> needed = give(*comm->comm, room);
  if (!needed.ok()) return Report(comm, needed.status(), caller);
  *bytes = static_cast<size_t>(*needed);
  if (buffer == nullptr || *needed <= room.size) return gwSuccess;
  return Report(comm,
                Status(gwInvalidArgument,
                       fmt::format("the buffer has {} bytes, {} are needed", room.size, *needed)),
                caller);
}

// With the zero at its end.
int64_t GiveText(const std::string& text, Bytes room) {
  const auto needed = static_cast<int64_t>(text.size()) + 1;
  if (room.size >= needed) std::memcpy(room.data, text.c_str(), needed);
  return needed;
}

}  // namespace

GW_DEFINE(gwResult_t, gwTensorRegister,
          (gwComm_t comm, const char* name, const int64_t* shape, int ndim, gwDataType_t datatype,
           const gwTensorConfig_t* config, gwTensor_t* tensor),
          (comm, name, shape, ndim, datatype, config, tensor)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  if (Status s = CheckName(name); !s.ok()) return Report(comm, std::move(s));
  const std::optional<DType> dtype = DTypeFromInt(datatype);
  if (Status s = CheckTensor(shape, ndim, dtype, tensor); !s.ok()) {
    return Report(comm, std::move(s).WithTensor(name));
  }
  if (Status s = CheckConfig(config, "GW_TENSOR_CONFIG_INITIALIZER"); !s.ok()) {
    return Report(comm, std::move(s).WithTensor(name));
  }
  const char* spec =
      config != nullptr && config->size >= sizeof(gwTensorConfig_t) ? config->spec : nullptr;
  // First, so that no tensor is registered that has none. One without a tensor does no harm.
  gwTensor* const handle =
      comm->tensors.emplace_back(std::make_unique<gwTensor>(gwTensor{comm, nullptr})).get();
  StatusOr<TensorState*> state = comm->comm->Register(name, {shape, static_cast<size_t>(ndim)},
                                                      *dtype, spec == nullptr ? "" : spec);
  if (!state.ok()) {
    comm->tensors.pop_back();
    return Report(comm, Status(state.status()).WithTensor(name));
  }
  handle->state = *state;
  *tensor = handle;
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwTensorDeregister, (gwTensor_t tensor), (tensor)) {
  if (tensor == nullptr) return Report(nullptr, Status(gwInvalidArgument, "the tensor is null"));
  gwComm_t comm = tensor->owner;
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  if (Status s = CheckRegistered(*tensor); !s.ok()) return Report(comm, std::move(s));
  if (Status s = comm->comm->Deregister(tensor->state); !s.ok()) return Report(comm, std::move(s));
  tensor->state =
      nullptr;  // the handle itself is kept, so that a later use is told and not a crash
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwTensorSetSpec, (gwTensor_t tensor, const char* spec), (tensor, spec)) {
  if (tensor == nullptr) return Report(nullptr, Status(gwInvalidArgument, "the tensor is null"));
  CallGuard guard(tensor->owner);
  if (!guard.ok()) return guard.Refuse();
  if (Status s = CheckRegistered(*tensor); !s.ok()) return Report(tensor->owner, std::move(s));
  if (spec == nullptr) {
    return Report(tensor->owner, Status(gwInvalidArgument, "the spec is null", "Pass \"none\""));
  }
  return Report(tensor->owner,
                tensor->owner->comm->SetSpec(tensor->state, spec).WithTensor(tensor->state->name));
}

GW_DEFINE(gwResult_t, gwAllReduceTensor,
          (gwTensor_t tensor, const void* send, void* recv, gwRedOp_t op, gwStream_t stream,
           gwRequest_t* request),
          (tensor, send, recv, op, stream, request)) {
  return SubmitGroup({1, &tensor, &send, &recv, op, stream}, request);
}

GW_DEFINE(gwResult_t, gwAllReduceTensors,
          (int count, const gwTensor_t* tensors, const void* const* send, void* const* recv,
           gwRedOp_t op, gwStream_t stream, gwRequest_t* request),
          (count, tensors, send, recv, op, stream, request)) {
  return SubmitGroup({count, tensors, send, recv, op, stream}, request);
}

GW_DEFINE(gwResult_t, gwReduceScatterTensor,
          (gwTensor_t tensor, const void* send, void* recv, gwRedOp_t op, gwStream_t stream,
           gwRequest_t* request),
          (tensor, send, recv, op, stream, request)) {
  if (tensor == nullptr || request == nullptr) {
    return Report(tensor == nullptr ? nullptr : HandleFor(tensor->owner),
                  Status(gwInvalidArgument, "the tensor or the request is null"));
  }
  gwComm_t comm = tensor->owner;
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  const std::string op_name(NameOfOperation(Scheme::kReduceScatter));
  if (Status s = CheckReduceScatter(*tensor, send, recv, op, stream); !s.ok())
    return Report(comm, std::move(s).WithOp(op_name));
  std::unique_ptr<gwRequest> handle = MakeRequest(comm);
  StatusOr<std::unique_ptr<Request>> made = comm->comm->SubmitReduceScatter(
      {tensor->state, static_cast<const std::byte*>(send), static_cast<std::byte*>(recv)},
      static_cast<ReduceOp>(op));
  if (!made.ok()) return Report(comm, Status(made.status()).WithOp(op_name));
  handle->request = std::move(*made);
  *request = handle.release();
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwTensorDiscardStep, (gwTensor_t tensor), (tensor)) {
  if (tensor == nullptr) return Report(nullptr, Status(gwInvalidArgument, "the tensor is null"));
  CallGuard guard(tensor->owner);
  if (!guard.ok()) return guard.Refuse();
  if (Status s = CheckRegistered(*tensor); !s.ok()) return Report(tensor->owner, std::move(s));
  return Report(tensor->owner, tensor->owner->comm->DiscardStep(tensor->state));
}

GW_DEFINE(gwResult_t, gwRequestWait, (gwRequest_t request, int64_t timeout_ns),
          (request, timeout_ns)) {
  if (request == nullptr) return Report(nullptr, Status(gwInvalidArgument, "the request is null"));
  CallGuard guard(request->owner);
  if (!guard.ok()) return guard.Refuse();
  return Report(request->owner, request->owner->comm->Wait(request->request.get(), timeout_ns));
}

GW_DEFINE(gwResult_t, gwRequestTest, (gwRequest_t request, int* done), (request, done)) {
  if (request == nullptr) return Report(nullptr, Status(gwInvalidArgument, "the request is null"));
  CallGuard guard(request->owner);
  if (!guard.ok()) return guard.Refuse();
  if (done == nullptr) return Report(request->owner, Status(gwInvalidArgument, "done is null"));
  *done = request->request->done() ? 1 : 0;
  if (*done == 0) return gwSuccess;
  return Report(request->owner, request->owner->comm->Look(*request->request));
}

// Also after its communicator is gone: a complete request needs it no more.
GW_DEFINE(gwResult_t, gwRequestFree, (gwRequest_t request), (request)) {
  if (request == nullptr) return gwSuccess;
  if (Status s = CheckProcess(request->forks); !s.ok()) return Report(nullptr, std::move(s));
  if (!request->request->done()) {
    // Of the thread: some ask by this, and the communicator's last error is another's reason.
    return Report(nullptr,
                  Status(gwInvalidUsage, "the request is not complete", "Wait for it first"));
  }
  delete request;
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwStepBegin, (gwComm_t comm, uint64_t step), (comm, step)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  return Report(comm, comm->comm->BeginStep(step));
}

GW_DEFINE(gwResult_t, gwStepSetLossScale, (gwComm_t comm, float scale), (comm, scale)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  return Report(comm, comm->comm->SetLossScale(scale));
}

GW_DEFINE(gwResult_t, gwStepEnd, (gwComm_t comm, gwStepOutcome_t* outcome), (comm, outcome)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  if (outcome == nullptr) return Report(comm, comm->comm->EndStepNoWait());
  StatusOr<StepEnd> end = comm->comm->EndStep();
  if (!end.ok()) return Report(comm, end.status());
  switch (end->outcome) {
    case StepOutcome::kCommit: *outcome = gwStepCommitted; break;
    case StepOutcome::kSkip: *outcome = gwStepSkipped; break;
    case StepOutcome::kAbort: *outcome = gwStepAborted; break;
  }
  const bool is_error = end->outcome == StepOutcome::kAbort && end->reason.code() == gwNonFinite;
  // The reason is there to read; but for what no retry mends the call itself did what it should.
  const gwResult_t result = Report(comm, std::move(end->reason));
  return is_error ? result : gwSuccess;
}

GW_DEFINE(gwResult_t, gwStepAbort, (gwComm_t comm, const char* why), (comm, why)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  return Report(comm, comm->comm->AbortStep(why == nullptr ? "" : why));
}

GW_DEFINE(gwResult_t, gwStateSave, (gwComm_t comm, void* buffer, size_t* bytes),
          (comm, buffer, bytes)) {
  return GiveBytes(comm, buffer, bytes,
                   [](Communicator& c, Bytes room) { return c.SaveState(room); });
}

GW_DEFINE(gwResult_t, gwStateLoad, (gwComm_t comm, const void* buffer, size_t bytes),
          (comm, buffer, bytes)) {
  CallGuard guard(comm);
  if (!guard.ok()) return guard.Refuse();
  if (buffer == nullptr) return Report(comm, Status(gwInvalidArgument, "buffer is null"));
  return Report(comm, comm->comm->LoadState(
                          {static_cast<const std::byte*>(buffer), static_cast<int64_t>(bytes)}));
}

GW_DEFINE(gwResult_t, gwCommGetStats, (gwComm_t comm, char* buffer, size_t* bytes),
          (comm, buffer, bytes)) {
  return GiveBytes(comm, buffer, bytes, [](Communicator& c, Bytes room) {
    return StatusOr<int64_t>(GiveText(c.StatsJson(), room));
  });
}

GW_DEFINE(gwResult_t, gwCommGetLedger, (gwComm_t comm, char* buffer, size_t* bytes),
          (comm, buffer, bytes)) {
  return GiveBytes(comm, buffer, bytes, [](Communicator& c, Bytes room) {
    return StatusOr<int64_t>(GiveText(c.LedgerJson(), room));
  });
}

}  // namespace gradwire
