#include "base/forks.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <mutex>

namespace gradwire {
namespace {

std::atomic<uint32_t> generation{0};

// A table of fixed size: to allocate under a lock that fork takes could lock up with an allocator
// that does the same.
struct KeptFiles {
  std::mutex mutex;
  std::bitset<1 << 20> numbers;
  int end = 0;  // no larger number is among them
};
KeptFiles kept;

void BeforeFork() { kept.mutex.lock(); }

void InParent() { kept.mutex.unlock(); }

// Only what may follow a fork of one of several threads. Where no stand-in is to be had, the copies
// are closed all the same: no owner's destructor runs in a child that does what it may.
void InChild() {
  generation.fetch_add(1, std::memory_order_relaxed);
  if (kept.end > 0) {
    const int stand_in = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int fd = 0; fd < kept.end; ++fd) {
      if (!kept.numbers[fd]) continue;
      if (dup3(stand_in, fd, O_CLOEXEC) < 0) close(fd);
      kept.numbers.reset(fd);
    }
    if (stand_in >= 0) close(stand_in);
    kept.end = 0;
  }
  kept.mutex.unlock();
}

void WatchForks() {
  [[maybe_unused]] static const int registered = pthread_atfork(BeforeFork, InParent, InChild);
}

bool InTable(int fd) { return fd >= 0 && fd < static_cast<int>(kept.numbers.size()); }

}  // namespace

uint32_t ForkGeneration() {
  WatchForks();
  return generation.load(std::memory_order_relaxed);
}

void KeepFromChildren(int fd) {
  if (!InTable(fd)) return;
  WatchForks();
  const std::lock_guard lock(kept.mutex);
  kept.numbers.set(fd);
  kept.end = std::max(kept.end, fd + 1);
}

void StopKeepingFromChildren(int fd) {
  if (!InTable(fd)) return;
  const std::lock_guard lock(kept.mutex);
  kept.numbers.reset(fd);
}

}  // namespace gradwire
