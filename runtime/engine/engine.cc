#include "runtime/engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "base/float_rules.h"
#include "base/log.h"
#include "base/service_thread.h"

namespace gradwire {
namespace {

// Longest sleep of the thread: bounds how late it notices a time-out.
constexpr int64_t kThreadSleepNs = 50 * kNsPerMs;
constexpr int64_t kHelperSleepNs = 2 * kNsPerMs;
// Longest rest of the thread where the transport delivers without it.
constexpr int64_t kRestNs = 5 * kNsPerMs;
// Where the transport cannot wait: nothing ends such a sleep early.
constexpr int64_t kBlindSleepNs = kNsPerMs;
// Yields for a thread that waits for the core: more than it takes to wake up.
constexpr int kYieldsForOthers = 100;

// Batch: waking the thread does not take the processor from the caller that submits. The same share
// of the processor otherwise; needs no privilege, and where it is refused all is as without it.
void RunAsBatch() {
  const sched_param none = {};
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace

Engine::Engine(const EngineCore::Options& options, const IdlePolicy& idle, Transport* transport,
               ControlChannel* control, const Clock* clock, EngineListener* listener)
    : transport_(transport),
      clock_(clock),
      idle_(idle),
      core_(options, transport, control, clock, listener) {}

Engine::~Engine() { StopThread(); }

void Engine::StopThread() {
  if (!thread_.joinable()) return;
  stop_ = true;
  Wake();
  thread_.join();
}

Status Engine::StartThread() {
  StatusOr<std::thread> started = StartServiceThread("gw-engine", [this] { Loop(); });
  if (!started.ok()) return started.status();
  thread_ = std::move(*started);
  return Status();
}

// A system call, and on links that are full the kernel finds other work to do in it: only where
// somebody sleeps. In one order with Idle: the sleeper sees what it is woken for, or this sees it.
void Engine::WakeSleeper() {
  if (sleeps_.load()) transport_->Wake();
}

std::unique_lock<std::mutex> Engine::LockCore() {
  std::unique_lock lock(core_mu_, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  lock_waiters_.fetch_add(1);
  WakeSleeper();
  lock.lock();
  lock_waiters_.fetch_sub(1);
  return lock;
}

void Engine::Push(std::function<void()> work) {
  {
    std::lock_guard lock(inbox_mu_);
    inbox_.push_back(std::move(work));
  }
  AnnounceInbox();
}

void Engine::AnnounceInbox() {
  // In one order with StopHelping: the last helper sees the work, or this sees that nobody helps.
  has_inbox_.store(true);
  if (helpers_.load() > 0) return;
  WakeSleeper();
  CallThread();
}

void Engine::CallThread() {
  {
    std::lock_guard lock(park_mu_);
    called_ = true;
  }
  park_.notify_one();
}

void Engine::Wake() {
  transport_->Wake();
  CallThread();
}

template <typename Work>
void Engine::Attempt(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    core_.EndBroken(error);
  }
}

// If the attempt threw before the core had the call, it is given again: the core has ended, and
// completes it with that error.
template <typename Give>
void Engine::GiveLocked(const std::atomic<bool>& done, const Give& give) {
  Attempt(give);
  if (!core_.fatal().ok() && !done.load(std::memory_order_relaxed)) give();
}

void Engine::SubmitLocked(const std::shared_ptr<Operation>& operation) {
  GiveLocked(operation->done, [&] { core_.Submit(operation); });
}

void Engine::PostLocked(const std::shared_ptr<Transfer>& transfer) {
  GiveLocked(transfer->done, [&] { core_.Post(transfer); });
}

void Engine::Issue(std::vector<std::shared_ptr<Operation>> operations,
                   std::vector<std::shared_ptr<Transfer>> transfers) {
  std::vector<std::function<void()>> work;
  for (std::shared_ptr<Transfer>& transfer : transfers)
    work.emplace_back([this, call = std::move(transfer)] { PostLocked(call); });
  for (std::shared_ptr<Operation>& operation : operations)
    work.emplace_back([this, call = std::move(operation)] { SubmitLocked(call); });
  {
    std::lock_guard lock(inbox_mu_);
    // All of it or, where there is no memory, nothing.
    inbox_.insert(inbox_.end(), std::make_move_iterator(work.begin()),
                  std::make_move_iterator(work.end()));
  }
  AnnounceInbox();
}

// A caller that does the engine's work; the thread leaves it to it. `core` is unlocked in the end.
class Engine::Helping {
 public:
  Helping(Engine* engine, std::unique_lock<std::mutex>* core) : engine_(engine), core_(core) {
    engine_->helpers_.fetch_add(1);
  }
  ~Helping() { engine_->StopHelping(core_); }
  Helping(const Helping&) = delete;
  Helping& operator=(const Helping&) = delete;

 private:
  Engine* const engine_;
  std::unique_lock<std::mutex>* const core_;
};

void Engine::SubmitAndHelp(const std::shared_ptr<Operation>& operation) {
  const ScopedFloatRules rules;
  std::unique_lock<std::mutex> core;
  const Helping helping(this, &core);
  core = LockCore();
  TakeInboxLocked();
  SubmitLocked(operation);
  HelpLocked(
      &core, [&](const EngineCore&) { return operation->done.load(std::memory_order_relaxed); },
      Deadline::Never());
}

void Engine::EndTurn(const TurnEnd& end) {
  Push([this, end] { core_.EndTurn(end); });
}

void Engine::NoteStepBegin(uint64_t step) {
  std::lock_guard lock(inbox_mu_);
  inbox_.push_back([this, step, now_ns = clock_->NowNs()] { core_.NoteStepBegin(step, now_ns); });
  has_inbox_.store(true, std::memory_order_release);
}

void Engine::Abort(const Status& status) {
  Push([this, status] { core_.EndEpoch(status); });
}

void Engine::Close(const Status& status) {
  StopThread();
  WithCore([&](EngineCore& core) { core.Close(status); });
}

bool Engine::TakeInboxLocked() {
  if (!has_inbox_.load(std::memory_order_relaxed) || !has_inbox_.exchange(false)) return false;
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(inbox_mu_);
    work.swap(inbox_);
  }
  for (const auto& item : work) Attempt(item);
  return true;
}

bool Engine::PollLocked() {
  bool moved = TakeInboxLocked();
  Attempt([&] { moved |= core_.Poll(); });
  return moved;
}

// Spin, then yield, then sleep on the transport. Sleeping without yielding first cost 15x with 4
// ranks on 2 cores.
void Engine::Idle(std::unique_lock<std::mutex>* core, int* idle_polls, int64_t max_sleep_ns) {
  *idle_polls = std::min(*idle_polls, idle_.spins + idle_.yields) + 1;
  if (*idle_polls <= idle_.spins) return;
  if (*idle_polls <= idle_.spins + idle_.yields) {
    core->unlock();
    sched_yield();
    core->lock();
    return;
  }
  sleeps_.store(true);
  const bool is_wanted = has_inbox_.load() || lock_waiters_.load() > 0 || stop_;
  const Status waited = is_wanted ? Status() : transport_->Wait(max_sleep_ns);
  sleeps_.store(false);
  if (!waited.ok()) SleepBlindly(core, waited);
}

// The operations go on: what the transport has comes by polls alone.
void Engine::SleepBlindly(std::unique_lock<std::mutex>* core, const Status& why) {
  if (!std::exchange(wait_failed_, true))
    GW_LOG(kWarn, kNet, "the transport cannot wait for news, and is polled: {}", why.ToString());
  core->unlock();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kBlindSleepNs));
  core->lock();
}

void Engine::Park(int64_t ns) {
  std::unique_lock lock(park_mu_);
  park_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return called_ || stop_; });
  called_ = false;
}

void Engine::Loop() {
  RunAsBatch();
  const ScopedFloatRules rules;  // a thread begins with those of the one that started it
  int idle_polls = 0;
  while (!stop_) {
    if (helpers_.load() > 0) {
      Park(kThreadSleepNs);
      continue;
    }
    std::unique_lock core(core_mu_);
    if (PollLocked()) {
      idle_polls = 0;
    } else if (core_.idle() && transport_->caps().accepted_is_visible) {
      core.unlock();
      Park(kRestNs);
      continue;
    } else {
      // With nothing under way there is nothing to be quick for.
      if (core_.idle()) idle_polls = idle_.spins + idle_.yields;
      Idle(&core, &idle_polls, kThreadSleepNs);
    }
    LetOthersIn(&core);
  }
}

void Engine::LetOthersIn(std::unique_lock<std::mutex>* core) {
  if (lock_waiters_.load(std::memory_order_relaxed) == 0) return;
  core->unlock();
  for (int i = 0; i < kYieldsForOthers && lock_waiters_.load() > 0; ++i) sched_yield();
  core->lock();
}

// The thread takes over what is left to do. With nothing left it rests: waking it costs more than a
// small operation.
void Engine::StopHelping(std::unique_lock<std::mutex>* core) {
  if (helpers_.fetch_sub(1) > 1) return;
  const bool rest = core->owns_lock() && transport_->caps().accepted_is_visible && core_.idle() &&
                    !has_inbox_.load();
  if (core->owns_lock()) core->unlock();
  if (!rest) CallThread();
}

bool Engine::HelpUntil(const Ready& ready, const Deadline& deadline) {
  const ScopedFloatRules rules;
  std::unique_lock<std::mutex> core;
  const Helping helping(this, &core);
  core = LockCore();
  TakeInboxLocked();
  return HelpLocked(&core, ready, deadline);
}

bool Engine::HelpLocked(std::unique_lock<std::mutex>* core, const Ready& ready,
                        const Deadline& deadline) {
  int idle_polls = 0;
  while (!ready(core_)) {
    if (deadline.Expired(*clock_)) return false;
    if (PollLocked()) {
      idle_polls = 0;
    } else {
      Idle(core, &idle_polls, std::min(kHelperSleepNs, deadline.RemainingNs(*clock_)));
    }
    LetOthersIn(core);
  }
  return true;
}

}  // namespace gradwire
