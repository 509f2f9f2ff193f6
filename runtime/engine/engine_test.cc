// An engine of one rank, and what its callers and its transport may do to it.
#include "runtime/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/schedule.h"
#include "runtime/engine/hungry_operation.h"
#include "runtime/operations/raw_operation.h"
#include "runtime/operations/schedule_cache.h"
#include "runtime/operations/slice_bytes.h"
#include "tests/lib/log_lines.h"
#include "transports/control/channel.h"
#include "transports/control/message.h"
#include "transports/control/sim_control.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Loopback, but for a Wait that may fail, or lasts until somebody wakes it.
class DeafTransport final : public Transport {
 public:
  explicit DeafTransport(Status wait) : wait_(std::move(wait)) {
    auto hub = MakeLoopbackHub({.world_size = 1});
    EXPECT_TRUE(hub.ok()) << hub.status().ToString();
    inner_ = std::move(*MakeLoopbackEnd(*hub, 0));
    const std::string address = inner_->address();
    EXPECT_TRUE(inner_->Connect({&address, 1}).ok());
    caps_ = inner_->caps();
  }
  // As of a transport that must be polled for what it has accepted: nobody rests beside it.
  void NeedPolls() { caps_.accepted_is_visible = false; }
  const TransportCaps& caps() const override { return caps_; }
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
    waits.fetch_add(1);
    if (!wait_.ok()) return wait_;
    return inner_->Wait(waits_for_wake ? 60 * kNsPerSecond : timeout_ns);
  }
  void Wake() override {
    wakes.fetch_add(1);
    inner_->Wake();
  }
  void Cancel(uint32_t op_seq) override { inner_->Cancel(op_seq); }

  std::atomic<int> waits{0}, wakes{0};
  std::atomic<bool> waits_for_wake{false};

 private:
  const Status wait_;
  std::unique_ptr<Transport> inner_;
  TransportCaps caps_;
};

struct Ends final : EngineListener {
  void OnOperationDone(Operation& /*operation*/) override {}
  void OnTurnEnd(const TurnResult& /*result*/) override {}
  void OnFatal(const Status& status) override {
    if (throws-- > 0) throw std::bad_alloc();
    fatal = status;
  }
  int throws = 0;  // so often before it takes it
  Status fatal;
};

struct LoneEngine {
  explicit LoneEngine(const Status& wait = Status()) : transport(wait) {}
  DeafTransport transport;
  SimControl control{{.world_size = 1}, &SteadyClock()};
  Ends ends;
  Engine engine{{.slice_bytes = SliceBytes(1024)},
                IdlePolicy{.spins = 0, .yields = 0},
                &transport,
                control.channel(0),
                &SteadyClock(),
                &ends};
};

std::shared_ptr<Operation> OneFloat(float* value) {
  static ScheduleCache schedules(0, 1);
  auto* const memory = reinterpret_cast<std::byte*>(value);
  const RawOp op = {.send = memory, .recv = memory, .count = 1};
  const AlgorithmRow* const row = *ChooseAlgorithm({.collective = op.collective});
  return std::make_shared<RawOperation>(op, 1024, row, schedules.Get(*row, 0));
}

// Without helping.
bool IsDoneInTime(const Operation& operation) {
  const Deadline deadline = Deadline::After(SteadyClock(), 20 * kNsPerSecond);
  while (!operation.done.load() && !deadline.Expired(SteadyClock())) sched_yield();
  return operation.done.load();
}

TEST(Engine, ItsThreadGoesOnBehindACallerThatThrows) {
  LoneEngine lone;
  ASSERT_TRUE(lone.engine.StartThread().ok());
  const auto throws = [](const EngineCore&) -> bool { throw std::bad_alloc(); };
  EXPECT_THROW((void)lone.engine.HelpUntil(throws, Deadline::Never()), std::bad_alloc);
  float value = 1;
  const std::shared_ptr<Operation> operation = OneFloat(&value);
  lone.engine.Issue({operation}, {});
  ASSERT_TRUE(IsDoneInTime(*operation)) << "the thread takes the caller for one that helps";
  EXPECT_TRUE(operation->status.ok()) << operation->status.ToString();
}

TEST(Engine, AHelperKnowsWhatWasSubmittedBefore) {
  LoneEngine lone;  // without its thread: nobody else looks
  float value = 1;
  const std::shared_ptr<Operation> operation = OneFloat(&value);
  lone.engine.Issue({operation}, {});
  EXPECT_TRUE(lone.engine.HelpUntil([](const EngineCore& core) { return core.idle(); },
                                    Deadline::After(SteadyClock(), 20 * kNsPerSecond)));
  EXPECT_TRUE(operation->done.load());
}

TEST(Engine, ACallThatSubmitsWakesATransportOnlyWhereSomebodySleepsOnIt) {
  float value = 1;
  {
    LoneEngine resting;
    ASSERT_TRUE(resting.engine.StartThread().ok());
    const std::shared_ptr<Operation> operation = OneFloat(&value);
    resting.engine.Issue({operation}, {});
    ASSERT_TRUE(IsDoneInTime(*operation));
    EXPECT_EQ(resting.transport.wakes, 0);
  }
  LoneEngine sleeping;
  sleeping.transport.NeedPolls();
  sleeping.transport.waits_for_wake = true;
  ASSERT_TRUE(sleeping.engine.StartThread().ok());
  while (sleeping.transport.waits == 0) sched_yield();
  const std::shared_ptr<Operation> operation = OneFloat(&value);
  sleeping.engine.Issue({operation}, {});
  ASSERT_TRUE(IsDoneInTime(*operation)) << "the sleeper was not woken";
  EXPECT_EQ(sleeping.transport.wakes, 1);
}

// What must happen at once where whoever has the core sleeps on the transport.
TEST(Engine, WhoWantsTheCoreWakesTheOneThatSleepsWithIt) {
  LoneEngine lone;
  lone.transport.NeedPolls();
  lone.transport.waits_for_wake = true;
  ASSERT_TRUE(lone.engine.StartThread().ok());
  while (lone.transport.waits == 0) sched_yield();
  const int64_t begin_ns = SteadyClock().NowNs();
  EXPECT_TRUE(lone.engine.WithCore([](const EngineCore& core) { return core.idle(); }));
  EXPECT_LT(SteadyClock().NowNs() - begin_ns, 20 * kNsPerSecond);
}

void ExpectNoMemory(const Operation& operation) {
  EXPECT_EQ(operation.status.code(), gwSystemError);
  EXPECT_THAT(operation.status.ToString(),
              HasSubstr("the engine of rank 0 cannot go on: std::bad_alloc"));
}

TEST(Engine, WhereItFindsNoMemoryWhatIsUnderWayEnds) {
  {
    LoneEngine lone;
    const auto operation = std::make_shared<HungryOperation>();
    lone.engine.SubmitAndHelp(operation);
    ExpectNoMemory(*operation);
    EXPECT_EQ(lone.ends.fatal.code(), gwSystemError);
  }
  LoneEngine lone;
  ASSERT_TRUE(lone.engine.StartThread().ok());
  const auto operation = std::make_shared<HungryOperation>();
  float value = 1;
  const std::shared_ptr<Operation> next = OneFloat(&value);
  lone.engine.Issue({operation}, {});
  lone.engine.Issue({next}, {});
  ASSERT_TRUE(IsDoneInTime(*operation));
  ExpectNoMemory(*operation);
  ASSERT_TRUE(IsDoneInTime(*next));
  ExpectNoMemory(*next);
}

// Keeps what is told to all others, or has no memory for it.
class OthersAreTold final : public ControlChannel {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  Status SendTo(int /*to_rank*/, ControlMessage /*message*/) override { return Status(); }
  Status Broadcast(ControlMessage message) override {
    if (throws) throw std::bad_alloc();
    told.push_back(std::move(message));
    return Status();
  }
  void SetProgress(const ControlProgress& /*progress*/) override {}
  void SetEpoch(uint32_t /*epoch*/) override {}
  int Poll(ControlSink* /*sink*/) override { return 0; }

  bool throws = false;
  std::vector<ControlMessage> told;
};

TEST(Engine, WhereItFindsNoMemoryTheOthersAreToldIfThatNeedsNone) {
  for (const bool throws : {false, true}) {
    DeafTransport transport((Status()));
    OthersAreTold control;
    control.throws = throws;
    Ends ends;
    Engine engine({.slice_bytes = SliceBytes(1024)}, IdlePolicy{.spins = 0, .yields = 0},
                  &transport, &control, &SteadyClock(), &ends);
    const auto operation = std::make_shared<HungryOperation>();
    engine.SubmitAndHelp(operation);
    ExpectNoMemory(*operation);
    EXPECT_EQ(ends.fatal.code(), gwSystemError);
    ASSERT_EQ(control.told.size(), throws ? 0u : 1u);
    if (throws) continue;
    const auto* revoke = control.told[0].get<RevokeFields>();
    ASSERT_NE(revoke, nullptr);
    EXPECT_EQ(revoke->scope, RevokeScope::kEpoch);
    EXPECT_EQ(revoke->culprit, kAllRanks) << "nobody is accused";
    EXPECT_EQ(DecodeStatus(control.told[0].body).detail().peer, 0);
  }
}

TEST(Engine, TellsOfItsEndAgainWhereThereWasNoMemoryToHearOfIt) {
  LoneEngine lone;
  lone.ends.throws = 2;
  const auto operation = std::make_shared<HungryOperation>();
  lone.engine.SubmitAndHelp(operation);
  ExpectNoMemory(*operation);
  EXPECT_TRUE(lone.engine.HelpUntil([&](const EngineCore&) { return !lone.ends.fatal.ok(); },
                                    Deadline::After(SteadyClock(), 20 * kNsPerSecond)));
}

TEST(Engine, NapsAndTellsOnceWhereTheTransportCannotWait) {
  const LogLines lines;
  LoneEngine lone(Status(gwSystemError, "no descriptor is left"));
  constexpr int kMs = 50;
  EXPECT_FALSE(lone.engine.HelpUntil([](const EngineCore&) { return false; },
                                     Deadline::After(SteadyClock(), kMs * kNsPerMs)));
  EXPECT_GT(lone.transport.waits, 0);
  EXPECT_LE(lone.transport.waits, kMs + 1) << "it spins";
  EXPECT_THAT(lines.all(),
              ElementsAre(HasSubstr("cannot wait for news, and is polled: system error: no "
                                    "descriptor is left")));
}

}  // namespace
}  // namespace gradwire
