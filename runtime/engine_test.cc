// An engine of one rank, and what its callers and its transport may do to it.
#include "runtime/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/schedule.h"
#include "runtime/operations.h"
#include "runtime/schedule_cache.h"
#include "transports/control/sim_control.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Loopback, but for a Wait that may fail at once.
class DeafTransport final : public Transport {
 public:
  explicit DeafTransport(bool deaf) : deaf_(deaf) {
    auto hub = MakeLoopbackHub({.world_size = 1});
    EXPECT_TRUE(hub.ok()) << hub.status().ToString();
    inner_ = std::move(*MakeLoopbackEnd(*hub, 0));
    const std::string address = inner_->address();
    EXPECT_TRUE(inner_->Connect({&address, 1}).ok());
  }
  const TransportCaps& caps() const override { return inner_->caps(); }
  std::string address() const override { return inner_->address(); }
  Status Connect(std::span<const std::string> addresses) override {
    return inner_->Connect(addresses);
  }
  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    return inner_->TrySend(peer, header, fragment, token);
  }
  int Progress(Sink* sink) override { return inner_->Progress(sink); }
  Status Wait(int64_t timeout_ns) override {
    ++waits;
    return deaf_ ? Status(gwSystemError, "no descriptor is left") : inner_->Wait(timeout_ns);
  }
  void Wake() override { inner_->Wake(); }
  void Cancel(uint32_t op_seq) override { inner_->Cancel(op_seq); }

  int waits = 0;

 private:
  const bool deaf_;
  std::unique_ptr<Transport> inner_;
};

struct Ends final : EngineListener {
  void OnOperationDone(Operation& /*operation*/) override {}
  void OnTurnEnd(const TurnResult& /*result*/) override {}
  void OnFatal(const Status& status) override { fatal = status; }
  Status fatal;
};

struct LoneEngine {
  explicit LoneEngine(bool deaf = false) : transport(deaf) {}
  DeafTransport transport;
  SimControl control{{.world_size = 1}, &SteadyClock()};
  Ends ends;
  Engine engine{{.slice_bytes = SliceBytes(1024)}, IdlePolicy{.spins = 0, .yields = 0},
                &transport, control.channel(0), &SteadyClock(), &ends};
};

TEST(Engine, NapsAndTellsOnceWhereTheTransportCannotWait) {
  std::vector<std::string> lines;
  const auto keep = [](void* user, LogLevel, LogSubsys, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
  };
  ASSERT_TRUE(ConfigureLog({.callback = keep, .user = &lines}).ok());
  LoneEngine lone(/*deaf=*/true);
  constexpr int kMs = 50;
  EXPECT_FALSE(lone.engine.HelpUntil([](const EngineCore&) { return false; },
                                     Deadline::After(SteadyClock(), kMs * kNsPerMs)));
  ASSERT_TRUE(ConfigureLog({}).ok());
  EXPECT_GT(lone.transport.waits, 0);
  EXPECT_LE(lone.transport.waits, kMs + 1) << "it spins";
  EXPECT_THAT(lines, ElementsAre(HasSubstr("cannot wait for news, and is polled: system error: no "
                                           "descriptor is left")));
}

}  // namespace
}  // namespace gradwire
