#include "base/wake_fd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "base/clock.h"

namespace gradwire {
namespace {

// Longer than a test may take: a wait that ends was ended.
constexpr int64_t kForeverNs = 3600 * kNsPerSecond;

bool IsReadable(int fd) {
  pollfd reader = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&reader, 1, 0) > 0;
}

class WakeFdTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(wake_.Open().ok());
    ASSERT_TRUE(other_.Open().ok());
  }
  Status Wait(int64_t timeout_ns) { return wake_.Wait(other_.read_end.get(), timeout_ns); }

  WakeFd wake_;
  Pipe other_;
};

TEST_F(WakeFdTest, IsReadableUntilTaken) {
  EXPECT_FALSE(IsReadable(wake_.get()));
  wake_.Take();  // does not block
  wake_.Wake();
  wake_.Wake();
  EXPECT_TRUE(IsReadable(wake_.get()));
  wake_.Take();
  EXPECT_FALSE(IsReadable(wake_.get()));
}

TEST_F(WakeFdTest, AWakeBeforeEndsTheNextWaitOnly) {
  wake_.Wake();
  EXPECT_TRUE(Wait(kForeverNs).ok());
  EXPECT_FALSE(IsReadable(wake_.get()));
}

TEST_F(WakeFdTest, AnotherThreadEndsAWait) {
  std::thread waker([this] { wake_.Wake(); });
  EXPECT_TRUE(Wait(kForeverNs).ok());
  waker.join();
  EXPECT_FALSE(IsReadable(wake_.get()));
}

TEST_F(WakeFdTest, TheOtherDescriptorEndsAWaitAndStaysReadable) {
  ASSERT_EQ(write(other_.write_end.get(), "x", 1), 1);
  EXPECT_TRUE(Wait(kForeverNs).ok());
  EXPECT_TRUE(IsReadable(other_.read_end.get()));
}

TEST_F(WakeFdTest, TimeEndsAWait) {
  const int64_t begin_ns = SteadyClock().NowNs();
  EXPECT_TRUE(Wait(-1).ok());
  EXPECT_TRUE(Wait(kNsPerMs).ok());
  EXPECT_GE(SteadyClock().NowNs() - begin_ns, kNsPerMs);
}

}  // namespace
}  // namespace gradwire
