#include "cli/measure/thread_clock.h"

#include <ctime>

namespace gradwire {
namespace {

class ProcessorClock final : public Clock {
 public:
  int64_t NowNs() const override {
    timespec now = {};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
  }
};

}  // namespace

const Clock& ThreadClock() {
  static const ProcessorClock kClock;
  return kClock;
}

}  // namespace gradwire
