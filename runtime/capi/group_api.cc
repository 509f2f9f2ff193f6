// Messages between two ranks, and groups of calls.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "runtime/capi/argument_check.h"
#include "runtime/capi/call_group.h"
#include "runtime/capi/entry.h"
#include "runtime/capi/handles.h"
#include "runtime/communicator/message_call.h"

namespace gradwire {
namespace {

// What a caller passed, unchecked.
struct MessageArguments {
  Transfer::Kind kind;
  const void* memory;
  size_t count;
  gwDataType_t datatype;
  int peer;
  gwStream_t stream;
};

StatusOr<MessageCall> Check(const MessageArguments& args, const Communicator& comm) {
  const StatusOr<DType> dtype = CheckedType(args.datatype);
  if (!dtype.ok()) return dtype.status();
  if (args.peer < 0 || args.peer >= comm.world_size()) {
    return Status(gwInvalidArgument,
                  fmt::format("peer {} is not in [0, {})", args.peer, comm.world_size()));
  }
  GW_RETURN_IF_ERROR(CheckCount(args.count, *dtype, 1));
  GW_RETURN_IF_ERROR(CheckStream(args.stream));
  if (args.count > 0) {
    if (args.memory == nullptr) return Status(gwInvalidArgument, "the buffer is null");
    GW_RETURN_IF_ERROR(CheckAligned(args.memory, *dtype));
  }
  return MessageCall{.kind = args.kind,
                     .peer = args.peer,
                     // A send only reads it.
                     .memory = static_cast<std::byte*>(const_cast<void*>(args.memory)),
                     .count = static_cast<int64_t>(args.count),
                     .dtype = *dtype};
}

Status RunAlone(Communicator& comm, const MessageCall& call) {
  const CallGroup group = {.collectives = {}, .messages = {call}};
  GW_RETURN_IF_ERROR(comm.Check(group));
  const StatusOr<IssuedCalls> issued = comm.Issue(group);
  return issued.ok() ? comm.Finish(*issued) : issued.status();
}

gwResult_t RunMessage(gwComm_t comm, const MessageArguments& args,
                      const char* caller = __builtin_FUNCTION()) {
  ThreadGroup& group = ThreadGroup::Current();
  CallGuard guard(comm);
  if (!guard.ok()) return group.Note(HandleFor(comm), guard.Refuse(caller));
  const StatusOr<MessageCall> call = Check(args, *comm->comm);
  Status status = call.status();
  if (call.ok() && group.open()) {
    group.Of(comm).messages.push_back(*call);
  } else if (call.ok()) {
    status = RunAlone(*comm->comm, *call);
  }
  const char* const op = args.kind == Transfer::Kind::kSend ? "send" : "receive";
  return group.Note(comm, Report(comm, std::move(status).WithOp(op)));
}

}  // namespace

GW_DEFINE(gwResult_t, gwSend,
          (const void* sendbuff, size_t count, gwDataType_t datatype, int peer, gwComm_t comm,
           gwStream_t stream),
          (sendbuff, count, datatype, peer, comm, stream)) {
  return RunMessage(comm, {Transfer::Kind::kSend, sendbuff, count, datatype, peer, stream});
}

GW_DEFINE(gwResult_t, gwRecv,
          (void* recvbuff, size_t count, gwDataType_t datatype, int peer, gwComm_t comm,
           gwStream_t stream),
          (recvbuff, count, datatype, peer, comm, stream)) {
  return RunMessage(comm, {Transfer::Kind::kRecv, recvbuff, count, datatype, peer, stream});
}

GW_DEFINE(gwResult_t, gwGroupStart, (void), ()) {
  ThreadGroup::Current().Start();
  return gwSuccess;
}

GW_DEFINE(gwResult_t, gwGroupEnd, (void), ()) { return ThreadGroup::Current().End(); }

}  // namespace gradwire
