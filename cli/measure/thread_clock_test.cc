#include "cli/measure/thread_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace gradwire {
namespace {

// Computes until the clock has moved on by `ns`.
void ComputeFor(int64_t ns) {
  const int64_t end_ns = ThreadClock().NowNs() + ns;
  while (ThreadClock().NowNs() < end_ns) {
  }
}

TEST(ThreadClock, CountsWhatThisThreadComputes) {
  const int64_t steady_ns = SteadyClock().NowNs();
  ComputeFor(2 * kNsPerMs);
  EXPECT_GE(SteadyClock().NowNs() - steady_ns, 2 * kNsPerMs);
}

TEST(ThreadClock, StandsStillWhileAnotherThreadComputes) {
  const int64_t before_ns = ThreadClock().NowNs();
  std::thread([] { ComputeFor(50 * kNsPerMs); }).join();
  EXPECT_LT(ThreadClock().NowNs() - before_ns, 25 * kNsPerMs);
}

}  // namespace
}  // namespace gradwire
