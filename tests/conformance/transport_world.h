// What the transport suite drives: all ranks of a small world in this process, each with a sender
// that cuts messages into fragments and a sink that checks every promise it can see.
#ifndef GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_WORLD_H_
#define GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transports/sim/sim_network.h"
#include "transports/transport.h"

namespace gradwire::conformance {

// Names one message of one rank to another.
struct MessageName {
  uint32_t op_seq = 0, message = 0;
  bool operator<(const MessageName& o) const {
    return std::pair(op_seq, message) < std::pair(o.op_seq, o.message);
  }
};

// One rank. Every fragment is sealed; its source is overwritten the moment OnSent comes, so a
// transport that reads it later sends rubbish. The first broken promise is kept in failure().
class Rank final : public Sink {
 public:
  Rank(Transport* transport, int rank, int world_size, uint64_t job);

  // Queues a message; messages to one peer are sent with their fragments interleaved.
  void Send(int peer, MessageName name, int64_t bytes);
  // Offers fragments until each peer has one refused. True: something was accepted.
  bool Pump();
  // Pump and Progress. True: something happened.
  bool Poll();
  // The same and nothing is offered.
  bool PollOnly();

  bool AllAccepted() const { return queued_.empty(); }
  bool AllSent() const { return queued_.empty() && outstanding_.empty(); }
  int64_t outstanding() const { return static_cast<int64_t>(outstanding_.size()); }
  // Messages that have arrived whole.
  int64_t received() const { return received_; }
  bool Received(int peer, MessageName name) const;
  const std::vector<int>& lost() const { return lost_; }
  int64_t refusals() const { return refusals_; }

  // Messages are forgotten, all or those of an operation; what was accepted still counts as
  // outstanding.
  void ForgetQueued() { queued_.clear(); }
  void Forget(uint32_t op_seq) {
    std::erase_if(queued_, [=](const Outgoing& out) { return out.name.op_seq == op_seq; });
  }

  const std::string& failure() const { return failure_; }
  Transport* transport() { return transport_; }
  // The header of one fragment of a message, before it is sealed.
  FrameHeader Header(MessageName name, int64_t bytes) const;
  // The first out.size bytes of what a message to `peer` holds.
  void FillContent(int peer, MessageName name, Bytes out) const;

  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override;
  void OnSent(SendToken token) override;
  void OnPeerLost(int peer, const Status& cause) override;

 private:
  struct Outgoing {
    int peer;
    MessageName name;
    std::shared_ptr<std::vector<std::byte>> data;
    int64_t offset = 0;
  };
  struct Source {
    std::shared_ptr<std::vector<std::byte>> data;
    int64_t offset, bytes;
  };
  SendOutcome Offer(Outgoing* out);
  void Fail(const std::string& what);

  Transport* const transport_;  // the world's; outlives us
  const int rank_, world_size_;
  const uint64_t job_;
  std::vector<Outgoing> queued_;
  std::map<SendToken, Source> outstanding_;
  SendToken next_token_;
  std::map<std::pair<int, MessageName>, int64_t> next_offset_;
  std::map<std::pair<int, MessageName>, bool> whole_;
  int64_t received_ = 0, refusals_ = 0;
  std::vector<int> lost_;
  bool in_progress_ = false;
  std::string failure_;
};

// All ranks, connected.
class World {
 public:
  // Polls all ranks by turns until `done`; false: it did not come about in time, or a rank failed.
  bool RunUntil(const std::function<bool()>& done);
  // Polls a few rounds more, for what must not happen.
  void Settle(int rounds = 20);
  // The first failure of any rank, empty: none.
  std::string failure() const;
  // Ends a rank as a crash would: its end is destroyed.
  void Destroy(int rank);

  Rank& rank(int r) { return *ranks[r]; }
  int size() const { return static_cast<int>(ranks.size()); }

  std::vector<std::unique_ptr<Rank>> ranks;  // null once destroyed
  // After the ranks, so that they go first: a source must outlive its fragment.
  std::vector<std::unique_ptr<Transport>> ends;
  std::function<bool()> idle;  // when no rank had anything to do; false: nothing can come
};

struct TransportKind {
  std::string name;      // letters, digits and _
  bool threads = true;   // an end may be driven by a thread of its own
  bool may_skip = true;  // gwTransportUnavailable is no failure here
  // Ends in rank order, not connected.
  std::function<StatusOr<std::vector<std::unique_ptr<Transport>>>(int world_size, uint64_t job,
                                                                  World* world)>
      make_ends;
};

inline void PrintTo(const TransportKind& kind, std::ostream* out) { *out << kind.name; }

// Every row of the registry: plain, as between hosts, and within the faulty transport (faults
// within the contract only), and the simulated network.
std::vector<TransportKind> TransportKinds();

// Where the factory is told the ranks are; in truth all are in this process.
enum class Place { kOneHost, kManyHosts };

// One transport by its spec (MakeTransport).
TransportKind KindOfSpec(const std::string& name, const std::string& spec, Place place);

// A simulated network; options.world_size is the world's. Or one that exists, for one world.
TransportKind KindOfSim(const std::string& name, const SimOptions& options);
TransportKind KindOfNetwork(const std::string& name, std::shared_ptr<SimNetwork> network);

// A connected world of a job of its own.
StatusOr<std::unique_ptr<World>> MakeWorld(const TransportKind& kind, int world_size);

}  // namespace gradwire::conformance

#endif  // GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_WORLD_H_
