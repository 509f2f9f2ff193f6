// Exact collectives on plain buffers.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/capi/argument_check.h"
#include "runtime/capi/call_group.h"
#include "runtime/capi/entry.h"
#include "runtime/capi/handles.h"
#include "runtime/capi/memory_check.h"

namespace gradwire {
namespace {

// What a caller passed, unchecked.
struct PlainCall {
  Collective collective;
  const void* send;
  void* recv;
  size_t count;
  gwDataType_t datatype = gwInt8;
  gwRedOp_t op = gwSum;
  int root = 0;
  gwStream_t stream;
};

// In place means exactly NCCL's in-place; any other overlap would be read after it was written.
Status CheckOverlap(const PlainCall& call, int64_t bytes, int rank, int world_size) {
  if (call.collective == Collective::kReduceScatter)
    return CheckReduceScatterMemory(call.send, call.recv, bytes, rank, world_size);
  const bool wide_send = call.collective == Collective::kAllToAll;
  const bool wide_recv =
      call.collective == Collective::kAllGather || call.collective == Collective::kAllToAll;
  const auto send = reinterpret_cast<uintptr_t>(call.send);
  const auto recv = reinterpret_cast<uintptr_t>(call.recv);
  const AddressRange sends(call.send, bytes * (wide_send ? world_size : 1));
  const AddressRange recvs(call.recv, bytes * (wide_recv ? world_size : 1));
  uintptr_t in_place_send = recv;
  if (call.collective == Collective::kAllGather)
    in_place_send = recv + static_cast<uintptr_t>(bytes * rank);
  const bool in_place = call.collective != Collective::kAllToAll && send == in_place_send;
  if (in_place || !sends.Overlaps(recvs)) return Status();
  return Status(gwInvalidArgument, "sendbuff and recvbuff overlap, and not as in-place does",
                "Use separate buffers, or the in-place form of this collective");
}

Status CheckBuffers(const PlainCall& call, DType dtype, int rank, int world_size) {
  if (call.count == 0) return Status();
  const bool needs_recv = call.collective != Collective::kReduce || rank == call.root;
  const bool needs_send = call.collective != Collective::kBroadcast || rank == call.root;
  if ((needs_send && call.send == nullptr) || (needs_recv && call.recv == nullptr)) {
    return Status(gwInvalidArgument, "a buffer is null");
  }
  if (needs_send) GW_RETURN_IF_ERROR(CheckAligned(call.send, dtype));
  if (needs_recv) GW_RETURN_IF_ERROR(CheckAligned(call.recv, dtype));
  if (!needs_send || !needs_recv) return Status();
  return CheckOverlap(call, static_cast<int64_t>(call.count) * SizeOf(dtype), rank, world_size);
}

StatusOr<RawOp> Check(const PlainCall& call, const Communicator& comm) {
  const StatusOr<DType> dtype = CheckedType(call.datatype);
  if (!dtype.ok()) return dtype.status();
  const std::optional<ReduceOp> op = ReduceOpFromInt(call.op);
  if (!op)
    return Status(gwInvalidArgument,
                  fmt::format("{} is no reduction operation", static_cast<int>(call.op)));
  if (call.root < 0 || call.root >= comm.world_size()) {
    return Status(gwInvalidArgument,
                  fmt::format("root {} is not in [0, {})", call.root, comm.world_size()));
  }
  GW_RETURN_IF_ERROR(
      CheckCount(call.count, *dtype, GivesToAll(call.collective) ? comm.world_size() : 1));
  GW_RETURN_IF_ERROR(CheckStream(call.stream));
  GW_RETURN_IF_ERROR(CheckBuffers(call, *dtype, comm.rank(), comm.world_size()));
  return RawOp{.collective = call.collective,
               .send = static_cast<const std::byte*>(call.send),
               .recv = static_cast<std::byte*>(call.recv),
               .count = static_cast<int64_t>(call.count),
               .dtype = *dtype,
               .op = *op,
               .root = call.root};
}

gwResult_t RunPlain(gwComm_t comm, const PlainCall& call,
                    const char* caller = __builtin_FUNCTION()) {
  ThreadGroup& group = ThreadGroup::Current();
  CallGuard guard(comm);
  if (!guard.ok()) return group.Note(HandleFor(comm), guard.Refuse(caller));
  const StatusOr<RawOp> op = Check(call, *comm->comm);
  Status status = op.status();
  if (op.ok() && group.open()) {
    group.Of(comm).collectives.push_back(*op);
  } else if (op.ok()) {
    status = comm->comm->Run(*op);
  }
  return group.Note(comm,
                    Report(comm, std::move(status).WithOp(std::string(Name(call.collective)))));
}

}  // namespace

GW_DEFINE(gwResult_t, gwAllReduce,
          (const void* sendbuff, void* recvbuff, size_t count, gwDataType_t datatype, gwRedOp_t op,
           gwComm_t comm, gwStream_t stream),
          (sendbuff, recvbuff, count, datatype, op, comm, stream)) {
  return RunPlain(comm,
                  {Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, stream});
}

GW_DEFINE(gwResult_t, gwReduce,
          (const void* sendbuff, void* recvbuff, size_t count, gwDataType_t datatype, gwRedOp_t op,
           int root, gwComm_t comm, gwStream_t stream),
          (sendbuff, recvbuff, count, datatype, op, root, comm, stream)) {
  return RunPlain(comm,
                  {Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root, stream});
}

GW_DEFINE(gwResult_t, gwBroadcast,
          (const void* sendbuff, void* recvbuff, size_t count, gwDataType_t datatype, int root,
           gwComm_t comm, gwStream_t stream),
          (sendbuff, recvbuff, count, datatype, root, comm, stream)) {
  return RunPlain(
      comm, {Collective::kBroadcast, sendbuff, recvbuff, count, datatype, gwSum, root, stream});
}

GW_DEFINE(gwResult_t, gwAllGather,
          (const void* sendbuff, void* recvbuff, size_t sendcount, gwDataType_t datatype,
           gwComm_t comm, gwStream_t stream),
          (sendbuff, recvbuff, sendcount, datatype, comm, stream)) {
  return RunPlain(
      comm, {Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype, gwSum, 0, stream});
}

GW_DEFINE(gwResult_t, gwReduceScatter,
          (const void* sendbuff, void* recvbuff, size_t recvcount, gwDataType_t datatype,
           gwRedOp_t op, gwComm_t comm, gwStream_t stream),
          (sendbuff, recvbuff, recvcount, datatype, op, comm, stream)) {
  return RunPlain(
      comm, {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, stream});
}

GW_DEFINE(gwResult_t, gwAllToAll,
          (const void* sendbuff, void* recvbuff, size_t count, gwDataType_t datatype, gwComm_t comm,
           gwStream_t stream),
          (sendbuff, recvbuff, count, datatype, comm, stream)) {
  return RunPlain(comm,
                  {Collective::kAllToAll, sendbuff, recvbuff, count, datatype, gwSum, 0, stream});
}

GW_DEFINE(gwResult_t, gwBarrier, (gwComm_t comm, gwStream_t stream), (comm, stream)) {
  return RunPlain(comm, {Collective::kBarrier, nullptr, nullptr, 0, gwInt8, gwSum, 0, stream});
}

}  // namespace gradwire
