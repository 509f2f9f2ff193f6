#include "base/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

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

}  // namespace
}  // namespace gradwire
