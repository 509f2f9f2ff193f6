#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace gradwire {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

class UniqueFdTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pipe_.Open().ok()); }

  Pipe pipe_;
};

TEST_F(UniqueFdTest, ClosesWhatItOwnsOnce) {
  const int fd = pipe_.read_end.get();
  {
    const UniqueFd owner = std::move(pipe_.read_end);
    EXPECT_EQ(owner.get(), fd);
    EXPECT_FALSE(pipe_.read_end.valid());
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(UniqueFdTest, AssignmentClosesWhatWasThere) {
  const int old = pipe_.read_end.get(), young = pipe_.write_end.get();
  pipe_.read_end = std::move(pipe_.write_end);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_EQ(pipe_.read_end.get(), young);
  UniqueFd& self = pipe_.read_end;
  pipe_.read_end = std::move(self);
  EXPECT_TRUE(IsOpen(young));
}

TEST_F(UniqueFdTest, WhatIsReleasedStaysOpen) {
  const int fd = pipe_.read_end.release();
  pipe_.read_end.reset();
  EXPECT_TRUE(IsOpen(fd));
  pipe_.read_end.reset(fd);
}

TEST_F(UniqueFdTest, PipeEndsWithItsWriter) {
  ASSERT_EQ(write(pipe_.write_end.get(), "x", 1), 1);
  pipe_.write_end.reset();
  char byte = 0;
  EXPECT_EQ(read(pipe_.read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(read(pipe_.read_end.get(), &byte, 1), 0);
  EXPECT_EQ(fcntl(pipe_.read_end.get(), F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace gradwire
