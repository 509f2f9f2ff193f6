// MessageStream: a stream transport over a message transport, so that what is made for NCCL runs
// without a GPU. It blocks where a stream would go on: a group has passed when it ends. For tests.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_STREAM_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_STREAM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "collectives/drivers/stream_driver.h"
#include "transports/transport.h"

namespace gradwire {

// Between two ranks the first message sent is the first received, as on a stream: whoever issues
// another order gets gwMismatch, or, where sizes agree, wrong bytes.
class MessageStream final : public StreamTransport, private Sink {
 public:
  // `transport` is connected.
  MessageStream(std::unique_ptr<Transport> transport, int rank, int world_size);

  Status GroupStart() override;
  Status Send(int peer, ConstBytes bytes) override;
  Status Recv(int peer, Bytes bytes) override;
  // Bounded; gwTimeout: nobody sends what this group receives.
  Status GroupEnd() override;

  bool open() const { return open_; }
  int groups() const { return groups_; }

 private:
  struct Outgoing {
    ConstBytes bytes;
    uint32_t message = 0;
    int64_t offered = 0;
  };
  struct Incoming {
    Bytes into;
    uint32_t message = 0;
  };
  struct Peer {
    uint32_t sends = 0, recvs = 0;  // messages of all groups so far
    std::deque<Outgoing> outgoing;
    std::deque<Incoming> incoming;
    Status lost;
  };
  using MessageKey = std::pair<int, uint32_t>;  // peer and number
  struct Arrived {
    std::vector<std::byte> bytes;
    int64_t received = 0;
  };

  bool Push(int peer);
  StatusOr<bool> Take(int peer);  // whether something was there
  StatusOr<bool> Advance();
  bool Passed() const;
  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override;
  void OnSent(SendToken) override { --in_flight_; }
  void OnPeerLost(int peer, const Status& cause) override;

  const std::unique_ptr<Transport> transport_;
  const int rank_;
  std::vector<Peer> peers_;
  std::map<MessageKey, Arrived> arrived_;
  int64_t in_flight_ = 0;  // fragments whose source the transport still reads
  bool open_ = false;
  int groups_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_STREAM_H_
