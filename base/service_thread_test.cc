#include "base/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <utility>

namespace {
// The next allocation of this thread fails.
thread_local bool no_memory = false;
}  // namespace

void* operator new(std::size_t size) {
  void* const memory = std::exchange(no_memory, false) ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace gradwire {
namespace {

TEST(ServiceThread, LeavesSignalsToTheOthers) {
  sigset_t inside, outside;
  StatusOr<std::thread> thread =
      StartServiceThread("gw-test", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(sigismember(&inside, SIGINT), 1);
  EXPECT_EQ(sigismember(&inside, SIGSEGV), 0) << "a crash handler is to see it";
  pthread_sigmask(SIG_SETMASK, nullptr, &outside);
  EXPECT_EQ(sigismember(&outside, SIGINT), 0);
}

// As where a system has none left: no thread can have a stack of this size.
TEST(ServiceThread, TellsThatThereAreNoMoreThreads) {
  constexpr size_t kTooLarge = size_t{1} << 46;
  pthread_attr_t before, large;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&large), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&large, kTooLarge), 0);
  ASSERT_EQ(pthread_setattr_default_np(&large), 0);
  const StatusOr<std::thread> thread = StartServiceThread("gw-test", [] {});
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  ASSERT_FALSE(thread.ok());
  EXPECT_EQ(thread.status().code(), gwSystemError) << thread.status().ToString();
}

TEST(ServiceThread, TellsThatThereIsNoMemoryForOne) {
  std::function<void()> body = [] {};
  no_memory = true;
  const StatusOr<std::thread> thread = StartServiceThread("gw-test", std::move(body));
  ASSERT_FALSE(std::exchange(no_memory, false)) << "nothing was allocated";
  ASSERT_FALSE(thread.ok());
  EXPECT_EQ(thread.status().code(), gwSystemError) << thread.status().ToString();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), 0) << "signals stay blocked";
}

}  // namespace
}  // namespace gradwire
