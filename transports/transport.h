// Transport: moves fragments between the ranks of one communicator. Small eager fragments, consumed
// on arrival, no posted receives (why: docs/architecture.md).
#ifndef GRADWIRE_TRANSPORTS_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "transports/frame/frame.h"

namespace gradwire {

// Identifies one accepted fragment to its sender.
using SendToken = uint64_t;

struct TransportCaps {
  int32_t max_fragment_bytes = 0;   // payload behind one header; a multiple of 64
  int32_t fragments_in_flight = 1;  // per peer, kept ahead by the driver
  // OnPeerLost comes without the control plane's help, for peers sent to or heard from.
  bool detects_peer_death = false;
  bool accepted_is_visible = false;  // once OnSent came, the peer gets it without our Progress
  bool within_host = false;          // bytes stay in memory: fragments need no checksum
};

// Receives what a transport has. Called from within Progress only; must not call the transport.
class Sink {
 public:
  virtual ~Sink() = default;
  // One fragment. The header is as it came from the wire, unchecked. `fragment` is valid during the
  // call only: consume it (add, copy, decode) or copy it aside, never hold it. Fragments of one
  // message come once each, in offset order; between messages there is no order.
  virtual void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) = 0;
  // The source of an accepted send may be written again (locally complete).
  virtual void OnSent(SendToken token) = 0;
  // The peer is gone; its tokens complete (OnSent) before or within the abort bound. gwSystemError:
  // it is this process that lacks what it takes to reach it.
  virtual void OnPeerLost(int peer, const Status& cause) = 0;
};

enum class SendOutcome {
  kAccepted,  // OnSent(token) will come
  kFull,      // no effect; again after Progress
  kLost,      // no effect; the peer is gone, OnPeerLost comes or came
};

// One rank's end. Threads: one at a time for everything but Wake.
class Transport {
 public:
  virtual ~Transport() =
      default;  // bounded; releases everything, also named things like shared memory

  virtual const TransportCaps& caps() const = 0;

  // What peers need to reach this rank; opaque, at most 4 KiB. Valid from creation.
  virtual std::string address() const = 0;
  // Once, with every rank's address in rank order, before the first send. Local; may connect
  // lazily.
  virtual Status Connect(std::span<const std::string> addresses) = 0;

  // Queues one fragment for `peer` (never this rank itself). `fragment` must stay unmodified until
  // OnSent; `header` is copied. Its size is at most caps().max_fragment_bytes and may be 0.
  virtual SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                              SendToken token) = 0;

  // Moves things and reports them to `sink`. Never blocks. Returns the number of reports made.
  virtual int Progress(Sink* sink) = 0;

  // Sleeps until Progress may have work, Wake is called, or the time has passed (still success).
  virtual Status Wait(int64_t timeout_ns) = 0;
  // From any thread: ends a Wait, or makes the next one return at once.
  virtual void Wake() = 0;

  // Bytes put around the frames accepted so far by this transport and, as far as it knows, by the
  // library below it: prefixes, padding, headers. What frames themselves have is not counted.
  virtual int64_t framing_bytes() const { return 0; }

  // Drops what is queued for this collective operation; its tokens complete within the abort bound.
  // Frames with kFramePointToPoint count on their own and are left alone.
  virtual void Cancel(uint32_t op_seq) = 0;

  // The destructor is to wait no longer, for peers or for what was accepted to go out; it has a
  // bound of its own besides.
  virtual void LimitClosing(int64_t /*ns*/) {}
};

// What a factory may need. Times and environment come from outside.
struct TransportOptions {
  int rank = 0;
  int world_size = 1;
  uint64_t job = 0;
  std::string interface;          // network interface to use; empty: the transport's choice
  std::string root;               // where rank 0 is met, as 10.0.0.1:29600; empty: not known
  int32_t fragment_bytes = 0;     // 0: the transport's choice
  bool all_ranks_on_host = true;  // known after the roster; a factory may refuse
  int64_t death_timeout_ns = 0;   // bound for noticing a dead peer where the transport can
};

struct TransportRow {
  std::string name;
  std::string doc;
  // An unusable transport is an error that names it and says why; there is no fall-back.
  StatusOr<std::unique_ptr<Transport>> (*make)(const TransportOptions&);
  // The ends it makes: for ranks of one host, for ranks of any hosts, or a kind for either. Which
  // is needed is known only after the roster (TransportOptions::all_ranks_on_host).
  bool within_host = false, between_hosts = false;
  bool between_processes = true;  // else ranks are threads, and `auto` leaves it out
  // Whether what it needs of others is on this machine, usable or not; null: it needs nothing.
  // Asked only where `make` has failed, to tell what is broken from what nobody has wanted.
  bool (*installed)() = nullptr;
};

// All transports of this build, in order of preference for `auto`. transports/registry.cc.
std::span<const TransportRow> Transports();
StatusOr<const TransportRow*> FindTransport(const std::string& name);
// The names of those whose ranks may be processes, in the same order.
std::vector<std::string> ProcessTransports();

// A transport by its spec: a row's name, or "faulty(SPEC,seed=1,delay=0.2,...)" around one
// (transports/faulty/fault_plan.h; each rank draws faults of its own). Errors as of the factory;
// gwInvalidArgument for a spec that is none.
StatusOr<std::unique_ptr<Transport>> MakeTransport(const std::string& spec,
                                                   const TransportOptions& options);

// The row that a spec names, also within "faulty(...)". Errors as of MakeTransport.
StatusOr<const TransportRow*> RowOfSpec(const std::string& spec);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TRANSPORT_H_
