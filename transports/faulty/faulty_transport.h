// Faulty: any transport, made to misbehave by a seeded plan. Shipped: it stands in for delay, loss
// and corruption of a network where a kernel cannot make them.
// Time passes by calls of Progress, so a scheduler in virtual time polls on for delay_polls rounds
// before it takes silence for a dead-lock. transports/sim has faults of its own.
#ifndef GRADWIRE_TRANSPORTS_FAULTY_FAULTY_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_FAULTY_FAULTY_TRANSPORT_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "transports/faulty/fault_plan.h"
#include "transports/transport.h"

namespace gradwire {

class FaultyTransport final : public Transport {
 public:
  // `inner` is not null. Give each rank a plan of its own seed: equal ones fail together.
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan);

  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override { return inner_->address(); }
  Status Connect(std::span<const std::string> addresses) override;
  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override;
  int Progress(Sink* sink) override;
  Status Wait(int64_t timeout_ns) override;
  void Wake() override { inner_->Wake(); }
  int64_t framing_bytes() const override { return inner_->framing_bytes(); }
  void Cancel(uint32_t op_seq) override;
  void LimitClosing(int64_t ns) override { inner_->LimitClosing(ns); }

 private:
  class Relay;

  // A fragment on its way to the inner transport.
  struct Outgoing {
    int peer = 0;
    FrameHeader header;  // what will be sent, faults included
    ConstBytes fragment;
    std::vector<std::byte> copy;  // what `fragment` looks at, where it is not the caller's
    FrameHeader message;          // the true header: names the message
    SendToken token = 0;
    bool report = false;  // OnSent(token) is owed
    int64_t due = 0;      // poll from which it may leave
  };
  // What the inner transport has accepted; its tokens are indices of these.
  struct Accepted {
    std::vector<std::byte> copy;
    SendToken token = 0;
    bool report = false;
  };
  struct Sent {
    SendToken token;
    int64_t due;
  };

  bool Happens(double probability) { return probability > 0 && random_.Unit() < probability; }
  int64_t DrawDue() { return poll_ + 1 + static_cast<int64_t>(random_.Below(plan_.delay_polls)); }
  bool IsHeld(int peer, const FrameHeader& message) const;
  void Corrupt(Outgoing* out);
  static void CorruptSealed(Outgoing* out);
  SendOutcome Forward(Outgoing* out);
  void Hold(Outgoing out);
  void Release();
  void Owe(const Outgoing& out);
  void DropHeldFor(int peer);
  void Lose(int peer, Status cause);

  const FaultPlan plan_;
  RandomStream random_;
  int64_t poll_ = 0;
  int64_t accepted_fragments_ = 0;
  bool sealed_corrupted_ = false, is_one_lost_ = false;
  bool refused_ = false;       // kFull of our own since the last Wait: nobody will wake us for it
  std::deque<Outgoing> held_;  // in order of acceptance
  std::vector<int> held_for_;  // by peer
  std::vector<Accepted> accepted_;
  std::vector<SendToken> free_;  // of accepted_
  std::vector<Sent> owed_;
  std::vector<bool> lost_;  // by peer
  std::vector<std::pair<int, Status>> lost_news_;
  // Last, so that it goes first: it may read our copies until then.
  std::unique_ptr<Transport> inner_;
  TransportCaps caps_;
};

std::unique_ptr<Transport> MakeFaulty(std::unique_ptr<Transport> inner, const FaultPlan& plan);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_FAULTY_FAULTY_TRANSPORT_H_
