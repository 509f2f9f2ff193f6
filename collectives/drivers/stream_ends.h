// The streams of all ranks over loopback, a thread each, for tests of what issues.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_STREAM_ENDS_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_STREAM_ENDS_H_

#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/drivers/message_stream.h"
#include "transports/loopback/loopback_ends.h"

namespace gradwire {

// Calls issue(rank, MessageStream*) -> Status on a thread for each rank; the first error by rank.
template <typename Issue>
Status RunStreamEnds(int n, const Issue& issue) {
  auto ends = MakeLoopbackEnds(n);
  if (!ends.ok()) return ends.status();
  GW_RETURN_IF_ERROR(ConnectEnds(*ends));
  std::vector<Status> results(n);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank) {
      threads.emplace_back([&, rank] {
        MessageStream stream(std::move((*ends)[rank]), rank, n);
        results[rank] = issue(rank, &stream);
      });
    }
  }
  for (Status& status : results) GW_RETURN_IF_ERROR(std::move(status));
  return Status::Ok();
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_STREAM_ENDS_H_
