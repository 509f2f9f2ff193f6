// StillClock: for how long nothing of an engine has moved, and what is due for that. Sans threads
// and clock.
#ifndef GRADWIRE_RUNTIME_ENGINE_STILL_CLOCK_H_
#define GRADWIRE_RUNTIME_ENGINE_STILL_CLOCK_H_

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/pause_watch.h"

namespace gradwire {

class StillClock {
 public:
  // So long a rest is worth a note: whoever reads the recorder of a hung job wants to know.
  static constexpr int64_t kNoteNs = kNsPerSecond;
  // So long an operation stands still before rank 0 is asked whether it is the same there, and then
  // twice as long each time: frames tell who meets, but of different operations each rank may await
  // another one's.
  static constexpr int64_t kStandstillNs = 200 * kNsPerMs;

  // More than `pause_ns` between two looks is a pause of this process itself: whoever is waited for
  // has its time from its end on.
  StillClock(int64_t now_ns, int64_t pause_ns) : pause_(pause_ns, now_ns), since_ns_(now_ns) {}

  // Something has moved. Needs no time, so that polls which move need not ask for it: what has
  // moved counts as of the next look at the time, which comes once nothing moves.
  void NoteMove() { moved_ = true; }
  // Whoever is waited for has its time from now on, though nothing has moved: what was due for this
  // rest does not come again.
  void Restart(int64_t now_ns) { since_ns_ = now_ns; }

  int64_t StillNs(int64_t now_ns) {
    if (pause_.HasPaused(now_ns)) Restart(now_ns);
    if (std::exchange(moved_, false)) BeginRest(now_ns);
    return now_ns - since_ns_;
  }
  // As of the last look.
  int64_t since_ns() const { return since_ns_; }
  // Once in a rest.
  bool TakeNoteDue(int64_t now_ns) {
    return StillNs(now_ns) > kNoteNs && !std::exchange(noted_, true);
  }
  // Ever more rarely.
  bool TakeStandstillDue(int64_t now_ns) {
    if (StillNs(now_ns) <= standstill_ns_) return false;
    standstill_ns_ *= 2;
    return true;
  }

 private:
  void BeginRest(int64_t now_ns) {
    since_ns_ = now_ns;
    noted_ = false;
    standstill_ns_ = kStandstillNs;
  }

  PauseWatch pause_;
  int64_t since_ns_;
  bool moved_ = false;  // after since_ns_
  bool noted_ = false;
  int64_t standstill_ns_ = kStandstillNs;  // the next one
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_STILL_CLOCK_H_
