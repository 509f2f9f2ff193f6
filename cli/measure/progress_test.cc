#include "cli/measure/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

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

TEST(ShowsProgress, WhereTheLauncherSaysSo) {
  ASSERT_EQ(isatty(STDERR_FILENO), 0) << "tests write to a file";
  for (const auto& [value, shows] : {std::pair("1", true), std::pair("", false)}) {
    ASSERT_EQ(setenv(kProgressVariable, value, 1), 0);
    EXPECT_EQ(ShowsProgress(), shows) << value;
  }
  unsetenv(kProgressVariable);
  EXPECT_FALSE(ShowsProgress());
}

}  // namespace
}  // namespace gradwire
