#include "runtime/communicator/message_call.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

namespace gradwire {
namespace {

Status Differ(const char* field, const std::string& sent, const std::string& received) {
  return Status(gwMismatch, {.message = "what this rank sends to itself is not what it receives",
                             .op = "send",
                             .hint = "A send and its receive must have the same count and type",
                             .field = field,
                             .expected = sent + " (sent)",
                             .actual = received + " (received)"});
}

Status CheckPair(const MessageCall& send, const MessageCall& recv) {
  if (send.count != recv.count)
    return Differ("count", std::to_string(send.count), std::to_string(recv.count));
  if (send.dtype == recv.dtype) return Status();
  return Differ("datatype", std::string(Name(send.dtype)), std::string(Name(recv.dtype)));
}

struct OwnMessages {
  std::vector<const MessageCall*> sends, recvs;
};

OwnMessages ToMyself(std::span<const MessageCall> calls, int rank) {
  OwnMessages own;
  for (const MessageCall& call : calls) {
    if (call.peer != rank) continue;
    (call.kind == Transfer::Kind::kSend ? own.sends : own.recvs).push_back(&call);
  }
  return own;
}

}  // namespace

Status CheckToMyself(std::span<const MessageCall> calls, int rank) {
  const auto [sends, recvs] = ToMyself(calls, rank);
  if (sends.size() != recvs.size()) {
    return Status(gwInvalidUsage,
                  fmt::format("rank {} sends {} messages to itself and receives {} of itself", rank,
                              sends.size(), recvs.size()),
                  "Call both within one group (gwGroupStart)");
  }
  for (size_t i = 0; i < sends.size(); ++i) GW_RETURN_IF_ERROR(CheckPair(*sends[i], *recvs[i]));
  return Status();
}

void CopyToMyself(std::span<const MessageCall> calls, int rank) {
  const auto [sends, recvs] = ToMyself(calls, rank);
  for (size_t i = 0; i < sends.size(); ++i) {
    const int64_t bytes = sends[i]->count * SizeOf(sends[i]->dtype);
    if (bytes > 0) std::memmove(recvs[i]->memory, sends[i]->memory, bytes);
  }
}

}  // namespace gradwire
