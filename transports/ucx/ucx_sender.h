// The sending half of the UCX transport: endpoints, fragments that UCX has not let go of, lost
// peers.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_SENDER_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_SENDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transports/transport.h"
#include "transports/ucx/ucx_wire.h"
#include "transports/ucx/ucx_worker.h"

namespace gradwire {

class UcxSender;

// The way to one rank. Its endpoint is made when it is first needed.
struct UcxPeer {
  UcxSender* sender = nullptr;  // owns this
  int rank = -1;
  ucp_ep_h endpoint = nullptr;  // null: none yet, or closed
  int held = 0;                 // slots that UCX has not let go of
  bool lost = false;
  std::string address;  // UCX's; until the endpoint exists
};

// Threads: those of Transport. Reports wait here until Report; nothing calls a Sink but Report.
class UcxSender {
 public:
  // `worker` outlives this. `rank` is this rank's.
  UcxSender(UcxWorker& worker, int rank, int world_size);
  UcxSender(const UcxSender&) = delete;
  UcxSender& operator=(const UcxSender&) = delete;
  ~UcxSender();

  // Once, before the rest.
  Status Start();
  // UCX's addresses in rank order.
  void SetAddresses(std::vector<std::string> addresses);
  // Makes the endpoint if there is none. gwTransportUnavailable: the two ranks have no transport in
  // common. Local: that somebody answers is not known yet.
  Status Open(int rank);
  // The same where nobody waits for an answer: a failure is the peer's loss.
  void Watch(int rank);

  // As of Transport.
  SendOutcome TrySend(int rank, const FrameHeader& header, ConstBytes fragment, SendToken token);
  void Cancel(uint32_t op_seq);

  // Gives lost peers' endpoints back to UCX. After each ucp_worker_progress; outside of it because
  // an endpoint cannot be closed from within its own error.
  void CloseLost();

  // As of Transport.
  int64_t framing_bytes() const { return framing_bytes_; }

  bool HasReports() const { return !sent_.empty() || !lost_.empty(); }
  // OnSent and OnPeerLost for what happened since the last call; returns how many.
  int Report(Sink* sink);

  // Delivers what was accepted, for at most a second, then closes everything, for at most half a
  // second. Nothing but the destructor may follow.
  void Shutdown(const Clock& clock);

 private:
  // UCX's callbacks; all of them run inside a call of ours on this thread.
  static void OnComplete(void* request, ucs_status_t status, void* slot);
  static void OnClosed(void* request, ucs_status_t status, void* sender);
  static void OnEndpointError(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxApi& api() const { return *worker_.api; }
  void Greet(UcxPeer* peer);
  SendOutcome HandOver(UcxPeer* peer, UcxSlot* slot);
  void CutOff(UcxSlot* slot);
  void ReportSent(UcxSlot* slot);
  void Lose(UcxPeer* peer, Status cause);
  void Close(UcxPeer* peer);
  void Count(ucs_status_ptr_t request);
  void AwaitClosing(const Clock& clock, int64_t bound_ns);

  UcxWorker& worker_;
  const int rank_;
  const UcxLayout layout_;
  std::vector<UcxPeer> peers_;
  UcxSlotPool slots_;
  ucp_datatype_t slot_type_ = 0;
  // Of every send; only user_data changes.
  ucp_request_param_t fragment_param_ = {}, bare_param_ = {};
  std::vector<SendToken> sent_;               // to be reported
  std::vector<std::pair<int, Status>> lost_;  // to be reported
  std::vector<UcxPeer*> to_close_;
  int64_t framing_bytes_ = 0;
  int closing_ = 0;  // flushes and closes under way
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_SENDER_H_
