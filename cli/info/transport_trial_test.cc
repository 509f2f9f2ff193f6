#include "cli/info/transport_trial.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

// Every look at it takes a millisecond: who waits for something comes to an end.
class PassingClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += kNsPerMs; }

 private:
  mutable int64_t now_ns_ = 0;
};

// A loopback that fails in one way.
struct Fault {
  bool connect = false;  // refuses to
  bool deaf = false;     // takes what it is given, which goes nowhere
  bool alone = false;    // has lost the other rank
};

class FaultyEnd final : public Transport {
 public:
  FaultyEnd(std::unique_ptr<Transport> inner, Fault fault)
      : inner_(std::move(inner)), fault_(fault) {}

  const TransportCaps& caps() const override { return inner_->caps(); }
  std::string address() const override { return inner_->address(); }
  Status Connect(std::span<const std::string> addresses) override {
    if (fault_.connect) return Status(gwTransportUnavailable, "no way", "Make one");
    return inner_->Connect(addresses);
  }
  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    if (fault_.deaf || fault_.alone) return SendOutcome::kFull;
    return inner_->TrySend(peer, header, fragment, token);
  }
  int Progress(Sink* sink) override {
    if (fault_.alone) sink->OnPeerLost(1, Status(gwPeerLost, "it is gone"));
    return inner_->Progress(sink);
  }
  Status Wait(int64_t) override { return Status::Ok(); }
  void Wake() override {}
  void Cancel(uint32_t) override {}

 private:
  std::unique_ptr<Transport> inner_;
  const Fault fault_;
};

template <Fault kFault>
StatusOr<std::unique_ptr<Transport>> MakeFaulty(const TransportOptions& options) {
  EXPECT_EQ(options.world_size, 2);
  EXPECT_TRUE(options.all_ranks_on_host);
  StatusOr<std::unique_ptr<Transport>> made = MakeLoopbackTransport(options);
  if (!made.ok()) return made;
  return std::unique_ptr<Transport>(std::make_unique<FaultyEnd>(std::move(*made), kFault));
}

template <Fault kFault>
Status Tried() {
  const TransportRow row = {
      .name = "faulty", .doc = "", .make = &MakeFaulty<kFault>, .within_host = true};
  return TryTransport(row, {.job = 4711}, PassingClock());
}

TEST(TryTransport, WhatCarriesAFragmentIsUsable) {
  const Status tried = Tried<Fault{}>();
  EXPECT_TRUE(tried.ok()) << tried.ToString();
}

TEST(TryTransport, WhatCannotBeMadeIsNot) {
  const TransportRow row = {
      .name = "none", .doc = "", .make = [](const TransportOptions&) {
        return StatusOr<std::unique_ptr<Transport>>(Status(gwTransportUnavailable, "not here"));
      }};
  EXPECT_EQ(TryTransport(row, {}, PassingClock()).detail().message, "not here");
}

TEST(TryTransport, WhatDoesNotReachTheOtherRankIsNot) {
  EXPECT_EQ(Tried<Fault{.connect = true}>().ToString(), "transport unavailable: no way. Make one");
  const Status late = Tried<Fault{.deaf = true}>();
  EXPECT_EQ(late.code(), gwTransportUnavailable);
  EXPECT_EQ(late.detail().message, "nothing came from one rank to another within 2 s");
  EXPECT_EQ(Tried<Fault{.alone = true}>().detail().message, "it is gone");
}

}  // namespace
}  // namespace gradwire
