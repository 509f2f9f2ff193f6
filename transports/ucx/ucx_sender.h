// The sending half of the UCX transport: endpoints, fragments that UCX has not let go of, lost
// peers.
//
// Over shared memory or TCP alone a frame is sent "short": UCX copies it into the peer's queue or
// hands it to the kernel before the call returns, or refuses it. So nothing of ours waits inside
// UCX, there is nothing to cancel, and UCX connects no "remote endpoint": that takes the peer's
// progress, and in UCX 1.13 an assertion ends the process when a peer dies meanwhile. Other fabrics
// have too little room for that; there UCX queues a request with a slot of ours behind it.
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
  bool used = false;            // frames of ours were sent there
  bool queued = false;          // UCX queues what it cannot send at once
  bool lost = false;
  int64_t refused_since_ns = 0;  // while nothing was ever accepted; 0: nothing was refused
  int64_t watched_since_ns = 0;  // over TCP; 0: not watched yet
  std::string address;           // UCX's; until the endpoint exists
};

// Threads: those of Transport. Reports wait here until Report; nothing calls a Sink but Report.
class UcxSender {
 public:
  // `worker` and `clock` outlive this. `rank` is this rank's. A peer that is watched and cannot be
  // connected for `death_timeout_ns` is lost; 0: none is.
  UcxSender(UcxWorker& worker, const Clock& clock, int rank, int world_size,
            int64_t death_timeout_ns);
  UcxSender(const UcxSender&) = delete;
  UcxSender& operator=(const UcxSender&) = delete;
  ~UcxSender();

  // Once, before the rest.
  Status Start();
  // UCX's addresses in rank order.
  void SetAddresses(std::vector<std::string> addresses);
  // Makes the endpoint if there is none. gwTransportUnavailable: the two ranks have no transport in
  // common. gwSystemError: no memory is left. Local: that somebody answers is not known yet.
  Status Open(int rank);
  // The same where nobody waits for an answer: a failure is the peer's loss, reported as gwPeerLost
  // or gwSystemError.
  void Watch(int rank);

  // As of Transport.
  SendOutcome TrySend(int rank, const FrameHeader& header, ConstBytes fragment, SendToken token);
  void Cancel(uint32_t op_seq);
  int64_t framing_bytes() const { return framing_bytes_; }

  // After each ucp_worker_progress: looks after watched peers and gives lost peers' endpoints back
  // to UCX. Outside of it because an endpoint cannot be closed from within its own error.
  void AfterProgress();
  // Watched peers are being connected, which takes more of AfterProgress.
  bool IsConnecting() const { return !connecting_.empty(); }

  bool HasReports() const { return !sent_.empty() || !lost_.empty(); }
  // A send was refused since the last call; UCX may not tell when there is room again. Progress
  // does not end that: nobody need have tried again before the sleep.
  bool TakeRefused() { return std::exchange(refused_, false); }
  // OnSent and OnPeerLost for what happened since the last call; returns how many.
  int Report(Sink* sink);

  // Delivers what was accepted, for two thirds of the bound, then closes everything, for a third.
  // Nothing but the destructor may follow.
  void Shutdown(int64_t bound_ns);

 private:
  // UCX's callbacks; all of them run inside a call of ours on this thread.
  static void OnComplete(void* request, ucs_status_t status, void* slot);
  static void OnClosed(void* request, ucs_status_t status, void* sender);
  static void OnEndpointError(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxApi& api() const { return *worker_.api; }
  ucs_status_t TryShort(const UcxPeer& peer, const UcxHead& head, ConstBytes fragment);
  SendOutcome SendShort(UcxPeer* peer, const UcxHead& head, ConstBytes fragment);
  SendOutcome SendQueued(UcxPeer* peer, UcxSlot* slot);
  SendOutcome Refused(UcxPeer* peer, ucs_status_t status);
  void Expect(UcxSlot* slot);
  void CutOff(UcxSlot* slot);
  void ReportSent(UcxSlot* slot);
  void Lose(UcxPeer* peer, Status cause);
  template <typename Send>
  auto SendNothing(UcxPeer* peer, Send send);
  SendOutcome SendNothing(UcxPeer* peer);
  bool IsDecided(UcxPeer* peer);
  bool Flushed(UcxPeer* peer);
  void Flush(UcxPeer* peer);
  void Close(UcxPeer* peer);
  void CountClosing(ucs_status_ptr_t request);
  template <typename Done>
  void ProgressUntil(int64_t bound_ns, Done done);

  UcxWorker& worker_;
  const Clock& clock_;
  const int rank_;
  const int64_t connect_bound_ns_;  // 0: none
  const UcxLayout layout_;
  std::vector<UcxPeer> peers_;
  UcxSlotPool slots_;
  ucp_datatype_t slot_type_ = 0;
  ucp_request_param_t short_param_ = {};   // of every short send
  ucp_request_param_t queued_param_ = {};  // of every other; only user_data changes
  bool refused_ = false;
  int64_t framing_bytes_ = 0;
  std::vector<SendToken> sent_;               // to be reported
  std::vector<std::pair<int, Status>> lost_;  // to be reported
  std::vector<UcxPeer*> to_close_;
  std::vector<UcxPeer*> connecting_;
  int closing_ = 0;  // closes and flushes under way
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_SENDER_H_
