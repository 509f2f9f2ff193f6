// ControlPlane: the control plane over sockets, with a thread of its own. The thread sleeps in
// epoll, answers heartbeats and relays even while the application computes or stands in a
// debugger's breakpoint of another thread, so that "alive but not progressing" and "dead" can be
// told apart.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_CONTROL_PLANE_H_
#define GRADWIRE_TRANSPORTS_CONTROL_CONTROL_PLANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transports/control/channel.h"
#include "transports/control/control_node.h"
#include "transports/control/tcp_links.h"

namespace gradwire {

struct ControlPlaneOptions {
  ControlNodeOptions node;
  // Called on the control thread, no lock held, after something for Poll has arrived. Short and
  // non-blocking: enqueue and wake. May be empty.
  std::function<void()> on_arrival;
  const Clock* clock = &SteadyClock();
};

// Threads: any for everything but Poll, which is for one at a time. A child of fork must not touch
// it.
class ControlPlane : public ControlChannel {
 public:
  // `links`: one per other rank on rank 0, the one to rank 0 elsewhere, none for a world of one.
  // gwSystemError: no descriptor, thread or memory is left; the others are told why this rank goes.
  static StatusOr<std::unique_ptr<ControlPlane>> Start(ControlPlaneOptions options,
                                                       std::vector<StarLink> links);
  ~ControlPlane() override { Shutdown(); }

  int rank() const override { return options_.node.rank; }
  int world_size() const override { return options_.node.world_size; }
  Status SendTo(int to_rank, ControlMessage message) override;
  Status Broadcast(ControlMessage message) override;
  void SetProgress(const ControlProgress& progress) override;
  void SetEpoch(uint32_t epoch) override;
  int Poll(ControlSink* sink) override;

  // Of all messages sent so far, relayed ones included.
  int64_t sent_bytes();

  // Leaves in peace: tells the others that this rank is finished and waits until they know. Rank 0
  // is the hub, so it waits until everybody else has left (or is lost). gwTimeout names who has
  // not, gwPeerLost who died before; the word is given all the same, and Shutdown is right
  // next.
  Status GracefulBye(int64_t timeout_ns);
  // Leaves in anger: the others take this rank for lost, with `why` as the cause. Does not wait.
  void LeaveWith(const Status& why);

  // Ends the thread and closes the sockets; at most a second (one on_arrival may be running).
  // Without a BYE before it, the others take this rank for lost. Idempotent. Poll still gives what
  // had arrived.
  void Shutdown();

 private:
  struct Loss {
    int rank;
    Status cause;
  };
  using Arrival = std::variant<ControlMessage, Loss>;
  class Collector;

  ControlPlane(ControlPlaneOptions options, std::unique_ptr<TcpLinks> links);
  Status StartThread();
  void Run();
  void Serve();
  // Sleeps less long if the node has something to do; requires mutex_ held.
  void WakeIfDue();

  const ControlPlaneOptions options_;
  std::mutex mutex_;  // guards links_ (but Wait and Wake), node_, may_leave_
  std::unique_ptr<TcpLinks> links_;
  ControlNode node_;
  bool may_leave_ = false;
  std::condition_variable left_;

  std::mutex arrivals_mutex_;  // guards arrivals_
  std::vector<Arrival> arrivals_;
  std::atomic<bool> has_arrivals_{false};

  std::atomic<bool> stop_{false};
  std::mutex shutdown_mutex_;  // guards thread_
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_CONTROL_PLANE_H_
