#include "transports/control/control_plane.h"

#include <chrono>
#include <utility>

#include "base/service_thread.h"

namespace gradwire {

// Collects what one turn reports, so that no lock is held while others are told.
class ControlPlane::Collector : public ControlSink {
 public:
  void OnControl(const ControlMessage& message) override { arrivals.emplace_back(message); }
  void OnRankLost(int rank, const Status& cause) override {
    arrivals.emplace_back(Loss{rank, cause});
  }
  std::vector<Arrival> arrivals;
};

StatusOr<std::unique_ptr<ControlPlane>> ControlPlane::Start(ControlPlaneOptions options,
                                                            std::vector<StarLink> links) {
  std::unique_ptr<ControlPlane> plane(
      new ControlPlane(std::move(options), std::make_unique<TcpLinks>(std::move(links))));
  Status started = plane->links_->Open();
  if (started.ok()) started = plane->StartThread();
  if (!started.ok()) {
    // Else they would read of a closed connection.
    plane->LeaveWith(Status(started).WithRank(plane->rank()));
    return started;
  }
  return plane;
}

ControlPlane::ControlPlane(ControlPlaneOptions options, std::unique_ptr<TcpLinks> links)
    : options_(std::move(options)),
      links_(std::move(links)),
      node_(options_.node, links_.get(), options_.clock->NowNs()) {}

Status ControlPlane::StartThread() {
  StatusOr<std::thread> started = StartServiceThread("gw-control", [this] { Run(); });
  if (!started.ok()) return started.status();
  thread_ = std::move(*started);
  return Status();
}

void ControlPlane::Run() {
  while (!stop_.load(std::memory_order_acquire)) {
    int64_t next_ns;
    {
      std::lock_guard lock(mutex_);
      next_ns = node_.NextNs();
    }
    (void)links_->Wait(Deadline{next_ns}.PollTimeoutMs(*options_.clock));
    Serve();
  }
}

void ControlPlane::Serve() {
  Collector collector;
  {
    std::lock_guard lock(mutex_);
    node_.Step(options_.clock->NowNs(), &collector);
    may_leave_ = node_.MayLeave();
    if (may_leave_) left_.notify_all();
  }
  if (collector.arrivals.empty()) return;
  {
    std::lock_guard lock(arrivals_mutex_);
    for (Arrival& a : collector.arrivals) arrivals_.push_back(std::move(a));
    has_arrivals_.store(true, std::memory_order_release);
  }
  if (options_.on_arrival) options_.on_arrival();
}

void ControlPlane::WakeIfDue() {
  if (node_.NextNs() <= options_.clock->NowNs()) links_->Wake();
}

Status ControlPlane::SendTo(int to_rank, ControlMessage message) {
  std::lock_guard lock(mutex_);
  return node_.SendTo(to_rank, std::move(message));
}

Status ControlPlane::Broadcast(ControlMessage message) {
  std::lock_guard lock(mutex_);
  Status status = node_.Broadcast(std::move(message));
  WakeIfDue();
  return status;
}

void ControlPlane::SetProgress(const ControlProgress& progress) {
  std::lock_guard lock(mutex_);
  node_.SetProgress(progress);
}

int64_t ControlPlane::sent_bytes() {
  std::lock_guard lock(mutex_);
  return links_->sent_bytes();
}

void ControlPlane::SetEpoch(uint32_t epoch) {
  std::lock_guard lock(mutex_);
  node_.SetEpoch(epoch);
}

int ControlPlane::Poll(ControlSink* sink) {
  if (!has_arrivals_.load(std::memory_order_acquire)) return 0;
  std::vector<Arrival> arrivals;
  {
    std::lock_guard lock(arrivals_mutex_);
    arrivals.swap(arrivals_);
    has_arrivals_.store(false, std::memory_order_release);
  }
  for (const Arrival& arrival : arrivals) {
    if (const auto* loss = std::get_if<Loss>(&arrival)) {
      sink->OnRankLost(loss->rank, loss->cause);
    } else {
      sink->OnControl(std::get<ControlMessage>(arrival));
    }
  }
  return static_cast<int>(arrivals.size());
}

Status ControlPlane::GracefulBye(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  node_.SayBye(Status::Ok());
  may_leave_ = node_.MayLeave();
  const bool known = left_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                    [&] { return may_leave_ || stop_.load(); });
  if (known) return node_.first_loss();
  return Status(gwTimeout, ErrorDetail{.message = node_.WhoStays(),
                                       .op = "leaving the communicator",
                                       .rank = options_.node.rank});
}

void ControlPlane::LeaveWith(const Status& why) {
  std::lock_guard lock(mutex_);
  node_.SayBye(why);
}

void ControlPlane::Shutdown() {
  std::lock_guard shutdown(shutdown_mutex_);
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  links_->Wake();
  thread_.join();
  std::lock_guard lock(mutex_);
  links_->CloseAll();
  left_.notify_all();
}

}  // namespace gradwire
