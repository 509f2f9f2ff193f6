#include "cli/launch/outlet.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/unique_fd.h"

namespace gradwire {
namespace {

// As much as there is now.
std::string ReadSomeOf(const Pipe& pipe) {
  std::string text(1 << 20, '\0');
  const ssize_t n = read(pipe.read_end.get(), text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// More than a pipe holds, no two pieces of it alike.
std::string LongText() {
  std::string text;
  while (text.size() < 300'000) text += std::to_string(text.size()) + "\n";
  return text;
}

class OutletTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pipe_.Open().ok());
    ASSERT_EQ(fcntl(pipe_.write_end.get(), F_SETFL, GetParam()), 0);
    ASSERT_EQ(fcntl(pipe_.read_end.get(), F_SETFL, O_NONBLOCK), 0);
  }

  Pipe pipe_;
};

TEST_P(OutletTest, WritesAtOnceWhatFits) {
  Outlet outlet(pipe_.write_end.get());
  outlet.Add("text");
  EXPECT_FALSE(outlet.waits());
  EXPECT_EQ(outlet.awaited_fd(), -1);
  EXPECT_EQ(ReadSomeOf(pipe_), "text");
}

TEST_P(OutletTest, KeepsTheRestUntilThereIsRoom) {
  const std::string text = LongText();
  Outlet outlet(pipe_.write_end.get());
  outlet.Add(text);
  EXPECT_EQ(outlet.awaited_fd(), pipe_.write_end.get());
  std::string read = ReadSomeOf(pipe_);
  outlet.Add("end");
  while (outlet.waits()) {
    read += ReadSomeOf(pipe_);
    outlet.Write();
  }
  EXPECT_EQ(read + ReadSomeOf(pipe_), text + "end");
  EXPECT_EQ(outlet.TakeError(), 0);
}

TEST_P(OutletTest, TellsOnceThatNobodyReads) {
  std::signal(SIGPIPE, SIG_IGN);
  Outlet outlet(pipe_.write_end.get());
  pipe_.read_end.reset();
  outlet.Add("text");
  EXPECT_EQ(outlet.TakeError(), EPIPE);
  outlet.Add("more");
  EXPECT_FALSE(outlet.waits());
  EXPECT_EQ(outlet.TakeError(), 0);
}

INSTANTIATE_TEST_SUITE_P(BlockingOrNot, OutletTest, testing::Values(0, O_NONBLOCK));

TEST(Outlet, TellsOfAFullDisk) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  Outlet outlet(full.get());
  outlet.Add("text");
  EXPECT_EQ(outlet.TakeError(), ENOSPC);
}

}  // namespace
}  // namespace gradwire
