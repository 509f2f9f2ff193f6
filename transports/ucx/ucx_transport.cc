#include "transports/ucx/ucx_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/wake_fd.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_receiver.h"
#include "transports/ucx/ucx_sender.h"
#include "transports/ucx/ucx_worker.h"

namespace gradwire {
namespace {

// Rounds of one Progress: enough to get past UCX's own messages, few enough that the driver can
// post its next fragments soon.
constexpr int kRounds = 4;

// Of a sleep that nothing may end: about the time a peer needs to empty its queue.
constexpr int64_t kBlindWaitNs = 100 * kNsPerUs;
// Short against the bound of a connection.
constexpr int64_t kConnectingWaitNs = 100 * kNsPerMs;

// Of the destructor, if nobody asks for less.
constexpr int64_t kClosingNs = 1500 * kNsPerMs;

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::unique_ptr<UcxWorker> worker, const TransportOptions& options)
      : worker_(std::move(worker)),
        rank_(options.rank),
        world_size_(options.world_size),
        receiver_(*worker_, SteadyClock(), options.world_size),
        sender_(*worker_, SteadyClock(), options.rank, options.world_size,
                options.death_timeout_ns) {
    caps_ = {.max_fragment_bytes = worker_->plan.fragment_bytes,
             .fragments_in_flight = worker_->plan.fragments_in_flight,
             .detects_peer_death = worker_->plan.fabric == UcxFabric::kTcp,
             .accepted_is_visible = worker_->plan.fabric == UcxFabric::kShared,
             .within_host = worker_->plan.fabric == UcxFabric::kShared};
  }

  ~UcxTransport() override {
    receiver_.SetSink(nullptr);
    sender_.Shutdown(closing_ns_);
    worker_->Close();
  }

  Status Start() {
    GW_RETURN_IF_ERROR(wake_.Open());
    GW_RETURN_IF_ERROR(sender_.Start());
    return receiver_.Start();
  }

  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override { return EncodeUcxAddress(Own()); }

  Status Connect(std::span<const std::string> addresses) override {
    if (static_cast<int>(addresses.size()) != world_size_) {
      return Status(gwInvalidArgument,
                    fmt::format("ucx: {} addresses for {} ranks", addresses.size(), world_size_));
    }
    std::vector<std::string> workers;
    const UcxAddress own = Own();
    for (int rank = 0; rank < world_size_; ++rank) {
      StatusOr<UcxAddress> theirs = DecodeUcxAddress(addresses[rank]);
      if (!theirs.ok()) return Status(theirs.status()).WithPeer(rank);
      GW_RETURN_IF_ERROR(CheckUcxPeer(own, *theirs, rank));
      workers.push_back(std::move(theirs->worker));
    }
    sender_.SetAddresses(std::move(workers));
    // One endpoint now, so that a set-up that cannot work fails here and not in the first
    // operation.
    return world_size_ == 1 ? Status::Ok() : sender_.Open((rank_ + 1) % world_size_);
  }

  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    assert(peer != rank_ && fragment.size <= caps_.max_fragment_bytes);
    return sender_.TrySend(peer, header, fragment, token);
  }

  int64_t framing_bytes() const override { return sender_.framing_bytes(); }

  int Progress(Sink* sink) override {
    receiver_.SetSink(sink);
    int fragments = 0;
    for (int round = 0; round < kRounds && fragments == 0; ++round) {
      if (worker_->api->ucp_worker_progress(worker_->worker) == 0) break;
      fragments = receiver_.TakeCount();
    }
    receiver_.SetSink(nullptr);
    WatchNewPeers();
    sender_.AfterProgress();
    return fragments + sender_.Report(sink);
  }

  Status Wait(int64_t timeout_ns) override {
    if (sender_.HasReports()) return Status::Ok();
    const ucs_status_t armed = worker_->api->ucp_worker_arm(worker_->worker);
    if (armed == UCS_ERR_BUSY) return Status::Ok();  // something came in between
    if (armed != UCS_OK) return UcxError(*worker_->api, gwSystemError, "arming its events", armed);
    // Shared memory does not tell when a full queue has room again.
    const bool blind = sender_.TakeRefused() && worker_->plan.fabric == UcxFabric::kShared;
    const int64_t longest = blind                    ? kBlindWaitNs
                            : sender_.IsConnecting() ? kConnectingWaitNs
                                                     : std::numeric_limits<int64_t>::max();
    return wake_.Wait(worker_->event_fd, std::min(timeout_ns, longest));
  }

  void Wake() override { wake_.Wake(); }

  void Cancel(uint32_t op_seq) override { sender_.Cancel(op_seq); }

  void LimitClosing(int64_t ns) override { closing_ns_ = std::min(ns, kClosingNs); }

 private:
  UcxAddress Own() const {
    return {.fabric = worker_->plan.fabric,
            .rank = rank_,
            .fragment_bytes = worker_->plan.fragment_bytes,
            .major = worker_->api->major,
            .minor = worker_->api->minor,
            .worker = worker_->address};
  }

  // A peer that only ever sends to us has no endpoint here whose error would tell of its death.
  void WatchNewPeers() {
    for (const int peer : receiver_.new_peers()) {
      if (caps_.detects_peer_death) sender_.Watch(peer);
    }
    receiver_.new_peers().clear();
  }

  const std::unique_ptr<UcxWorker> worker_;
  const int rank_, world_size_;
  TransportCaps caps_;
  UcxReceiver receiver_;
  UcxSender sender_;
  WakeFd wake_;
  int64_t closing_ns_ = kClosingNs;
};

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const TransportOptions& options) {
  const bool in_range = options.world_size >= 1 && options.world_size <= 65535 &&
                        options.rank >= 0 && options.rank < options.world_size;
  if (!in_range) {
    return Status(gwInvalidArgument,
                  fmt::format("ucx: rank {} of {}", options.rank, options.world_size));
  }
  StatusOr<std::unique_ptr<UcxWorker>> worker = UcxWorker::Open(options);
  if (!worker.ok()) return worker.status();
  auto transport = std::make_unique<UcxTransport>(std::move(*worker), options);
  GW_RETURN_IF_ERROR(transport->Start());
  return std::unique_ptr<Transport>(std::move(transport));
}

bool UcxIsInstalled() { return LibraryIsThere(kUcxLibrary); }

}  // namespace gradwire
