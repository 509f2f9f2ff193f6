// A UCX context and its one worker, made by the plan and taken down in order.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_WORKER_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_WORKER_H_

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "transports/transport.h"
#include "transports/ucx/ucx_api.h"
#include "transports/ucx/ucx_folder.h"
#include "transports/ucx/ucx_plan.h"

namespace gradwire {

// One thread at a time. The members are for the transport to use; they stay what they are.
struct UcxWorker {
  // gwTransportUnavailable: UCX is missing, or offers nothing that reaches another process.
  static StatusOr<std::unique_ptr<UcxWorker>> Open(const TransportOptions& options);

  UcxWorker() = default;
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  ~UcxWorker() { Close(); }

  // Frees the worker and what endpoints remain, without a word to their peers; completes what they
  // hold, so the callbacks' data must still be there. Bounded. Again is no effect.
  void Close();

  const UcxApi* api = nullptr;  // lives until the process ends
  UcxPlan plan;
  std::optional<UcxFolder> folder;  // where it makes files
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  int event_fd = -1;      // UCX's own: readable when there may be work, once armed
  std::string address;    // for a peer's ucp_ep_create
  std::string resources;  // "tcp/eth0, self/memory": what UCX found
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_WORKER_H_
