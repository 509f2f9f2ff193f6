#include "cli/measure/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace gradwire {
namespace {

class ProgressTest : public testing::Test {
 protected:
  ~ProgressTest() override {
    std::fclose(terminal_);
    std::free(text_);
  }
  std::string shown() const { return {text_, size_}; }

  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* const terminal_ = open_memstream(&text_, &size_);
  ManualClock clock_{kNsPerSecond};
};

TEST_F(ProgressTest, IsOneLineThatIsGoneAtTheEnd) {
  {
    Progress progress(terminal_, clock_);
    progress.Begin("block 1 of 2, step");
    progress.Count(3, 10);
    EXPECT_EQ(shown(), "\rblock 1 of 2, step 3 of 10\x1b[K");
    progress.Count(4, 10);
    EXPECT_EQ(shown(), "\rblock 1 of 2, step 3 of 10\x1b[K") << "too soon";
    clock_.Advance(kNsPerSecond);
    progress.Begin("block 2 of 2, step");
    progress.Count(1, 10);
  }
  EXPECT_EQ(shown(),
            "\rblock 1 of 2, step 3 of 10\x1b[K\rblock 2 of 2, step 1 of 10\x1b[K\r\x1b[K");
}

TEST_F(ProgressTest, WhoShowedNothingClearsNothing) {
  {
    Progress progress(terminal_, clock_);
    progress.Begin("block 1 of 2, step");
    progress.Clear();
    Progress none(nullptr, clock_);
    none.Count(1, 2);
  }
  std::fflush(terminal_);
  EXPECT_EQ(shown(), "");
}

TEST(ShowsProgress, WhereTheLauncherSaysSoOfItsPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO), file = open("/dev/null", O_WRONLY);
  const auto shows_on = [&](int fd) {
    dup2(fd, STDERR_FILENO);
    const bool shows = ShowsProgress();
    dup2(before, STDERR_FILENO);
    return shows;
  };
  ASSERT_EQ(setenv(kProgressVariable, "1", 1), 0);
  EXPECT_TRUE(shows_on(ends[1]));
  EXPECT_FALSE(shows_on(file)) << "the program has turned it elsewhere";
  ASSERT_EQ(setenv(kProgressVariable, "", 1), 0);
  EXPECT_FALSE(shows_on(ends[1]));
  unsetenv(kProgressVariable);
  EXPECT_FALSE(shows_on(ends[1]));
  for (const int fd : {ends[0], ends[1], before, file}) close(fd);
}

}  // namespace
}  // namespace gradwire
