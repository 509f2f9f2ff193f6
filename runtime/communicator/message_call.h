// MessageCall: one gwSend or gwRecv as its caller gave it.
#ifndef GRADWIRE_RUNTIME_COMMUNICATOR_MESSAGE_CALL_H_
#define GRADWIRE_RUNTIME_COMMUNICATOR_MESSAGE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/status.h"
#include "collectives/drivers/point_to_point.h"

namespace gradwire {

struct MessageCall {
  Transfer::Kind kind = Transfer::Kind::kSend;
  int peer = -1;
  std::byte* memory = nullptr;  // host; only read by a send
  int64_t count = 0;
  DType dtype = DType::kUint8;
};

// What a rank sends to itself within `calls`: the sends meet the receives in order.
// gwInvalidUsage: there are not as many of one as of the other; gwMismatch: two that meet differ.
Status CheckToMyself(std::span<const MessageCall> calls, int rank);
// Of calls that were checked.
void CopyToMyself(std::span<const MessageCall> calls, int rank);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_COMMUNICATOR_MESSAGE_CALL_H_
