// Engine: EngineCore with a thread. A caller that waits does the engine's work itself; the thread
// only fills the time in which nobody waits. Exceptions of that work (no memory) end the core with
// gwSystemError.
#ifndef GRADWIRE_RUNTIME_ENGINE_ENGINE_H_
#define GRADWIRE_RUNTIME_ENGINE_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/engine/engine_core.h"

namespace gradwire {

// How long an idle poller tries before it sleeps.
struct IdlePolicy {
  int spins = 2000;  // polls in a row
  int yields = 200;  // polls with a yield before each
};

class Engine {
 public:
  // All pointers outlive the engine.
  Engine(const EngineCore::Options& options, const IdlePolicy& idle, Transport* transport,
         ControlChannel* control, const Clock* clock, EngineListener* listener);
  // Ends the thread; one poll of it may be under way.
  ~Engine();

  // Before anything else, once.
  Status StartThread();

  // All of them or, where it throws, none. O(1) for each: copies and encodes nothing.
  void Issue(std::vector<std::shared_ptr<Operation>> operations,
             std::vector<std::shared_ptr<Transfer>> transfers);
  void EndTurn(const TurnEnd& end);
  // Wakes nobody: it is only for the record.
  void NoteStepBegin(uint64_t step);
  void Abort(const Status& status);
  // Ends the thread; then what is left completes, with `status`. Nothing but the destructor comes
  // after it.
  void Close(const Status& status);

  // Submits and works until the operation is done: the thread is not woken.
  void SubmitAndHelp(const std::shared_ptr<Operation>& operation);

  // Called with the core while nobody else touches it; must not call the engine.
  using Ready = std::function<bool(const EngineCore&)>;
  // Does the engine's work until `ready` or the deadline (by `clock`). True: ready, and then the
  // core knows all that was submitted before the call.
  bool HelpUntil(const Ready& ready, const Deadline& deadline);

  // From any thread: there is news in the control plane.
  void Wake();

  // Runs `use` with the core while nobody else touches it, after all that was submitted so far.
  template <typename Use>
  auto WithCore(Use use) {
    std::unique_lock lock = LockCore();
    TakeInboxLocked();
    return use(core_);
  }

 private:
  class Helping;

  std::unique_lock<std::mutex> LockCore();
  bool TakeInboxLocked();
  bool PollLocked();
  void Loop();
  void StopThread();
  bool HelpLocked(std::unique_lock<std::mutex>* core, const Ready& ready, const Deadline& deadline);
  void Idle(std::unique_lock<std::mutex>* core, int* idle_polls, int64_t max_sleep_ns);
  void SleepBlindly(std::unique_lock<std::mutex>* core, const Status& why);
  void LetOthersIn(std::unique_lock<std::mutex>* core);
  void WakeSleeper();
  void Push(std::function<void()> work);
  void AnnounceInbox();
  void CallThread();
  void Park(int64_t ns);
  void StopHelping(std::unique_lock<std::mutex>* core);
  template <typename Work>
  void Attempt(const Work& work);
  template <typename Give>
  void GiveLocked(const std::atomic<bool>& done, const Give& give);
  void SubmitLocked(const std::shared_ptr<Operation>& operation);
  void PostLocked(const std::shared_ptr<Transfer>& transfer);

  Transport* const transport_;
  const Clock* const clock_;
  const IdlePolicy idle_;
  std::mutex core_mu_;
  EngineCore core_;           // guarded by core_mu_
  bool wait_failed_ = false;  // likewise: it has been told
  std::mutex inbox_mu_;
  std::vector<std::function<void()>> inbox_;  // guarded by inbox_mu_
  std::atomic<bool> has_inbox_{false};
  std::atomic<int> helpers_{0};
  std::atomic<int> lock_waiters_{0};  // somebody wants the core: a sleeper must not keep it
  std::atomic<bool> sleeps_{false};   // who has the core sleeps on the transport, or is about to
  std::mutex park_mu_;
  std::condition_variable
      park_;             // the thread rests here while somebody helps or nothing is to be done
  bool called_ = false;  // the thread is to look again; guarded by park_mu_
  std::atomic<bool> stop_{false};
  std::thread thread_;  // once started
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_ENGINE_H_
