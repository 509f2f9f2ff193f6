// PauseWatch: whether this process itself has stood still, as where it was stopped or its machine
// slept. Sans threads and clock. Whoever waits for others does not count such a time against them:
// perhaps all have stood still.
#ifndef GRADWIRE_BASE_PAUSE_WATCH_H_
#define GRADWIRE_BASE_PAUSE_WATCH_H_

#include <cstdint>
#include <utility>

namespace gradwire {

class PauseWatch {
 public:
  // While the process runs, and the owner waits, no two looks are further apart than `pause_ns`;
  // INT64_MAX: any may be.
  explicit PauseWatch(int64_t pause_ns, int64_t now_ns = 0)
      : pause_ns_(pause_ns), looked_ns_(now_ns) {}

  // A look. True: the last one is too long ago. That holds also for the first look of a wait before
  // which nobody looked, but little of that wait is over then.
  bool HasPaused(int64_t now_ns) { return now_ns - std::exchange(looked_ns_, now_ns) > pause_ns_; }
  int64_t looked_ns() const { return looked_ns_; }

 private:
  int64_t pause_ns_;
  int64_t looked_ns_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_PAUSE_WATCH_H_
