// The receiving half of the UCX transport: active messages to Sink::OnFragment, where they lie.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_RECEIVER_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_RECEIVER_H_

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/workspace.h"
#include "transports/transport.h"
#include "transports/ucx/ucx_wire.h"
#include "transports/ucx/ucx_worker.h"

namespace gradwire {

// Threads: those of Transport.
class UcxReceiver {
 public:
  // `worker` and `clock` outlive this, and this outlives the worker's last progress.
  UcxReceiver(UcxWorker& worker, const Clock& clock, int world_size);
  UcxReceiver(const UcxReceiver&) = delete;
  UcxReceiver& operator=(const UcxReceiver&) = delete;

  // Once, before the address is known to anybody.
  Status Start();

  // Who gets what arrives from now on; null: nobody, it is dropped.
  void SetSink(Sink* sink) { sink_ = sink; }
  // Fragments handed over since the last call.
  int TakeCount();
  // Ranks that sent for the first time since the last call.
  std::vector<int>& new_peers() { return new_peers_; }

 private:
  static ucs_status_t OnMessage(void* receiver, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ucp_am_recv_param_t* param);
  void Deliver(ConstBytes message, ConstBytes tail);
  ConstBytes Aligned(ConstBytes payload);
  void Drop(const char* why, int64_t bytes);

  UcxWorker& worker_;
  Sink* sink_ = nullptr;
  int count_ = 0;
  std::vector<bool> heard_;  // by rank
  std::vector<int> new_peers_;
  AlignedBuffer scratch_;  // for payloads at odd addresses
  LogRateLimit bad_frames_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_RECEIVER_H_
