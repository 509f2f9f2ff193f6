#include "transports/transport.h"

namespace gradwire {

std::optional<Bytes> Transport::Reserve(int /*peer*/, int64_t /*bytes*/) { return std::nullopt; }

void Transport::Commit(int /*peer*/, const FrameHeader& /*header*/, int64_t /*bytes*/) {}

}  // namespace gradwire
