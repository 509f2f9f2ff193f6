// main() of every test: GoogleTest, with the reasons of skipped tests listed at the end, and
// with a failure where nothing was run (a filter that matches nothing is a mistake) or where a test
// without the tag "threads" made one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/single_threaded.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

class SkipReporter : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& info) override {
    const testing::TestResult& result = *info.result();
    if (!result.Skipped()) return;
    for (int i = 0; i < result.total_part_count(); ++i) {
      const testing::TestPartResult& part = result.GetTestPartResult(i);
      if (!part.skipped()) continue;
      lines_.push_back(std::string(info.test_suite_name()) + "." + info.name() + ": " +
                       part.message());
    }
  }

  void OnTestProgramEnd(const testing::UnitTest&) override {
    for (const std::string& line : lines_) std::printf("skipped: %s\n", line.c_str());
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  // GoogleTest takes ownership.
  testing::UnitTest::GetInstance()->listeners().Append(new SkipReporter);
  const int result = RUN_ALL_TESTS();

  // glibc's flag is true until the first thread is made.
  if (std::getenv("GRADWIRE_ONE_THREAD") != nullptr && !__libc_single_threaded) {
    std::fprintf(stderr, "this test makes threads: its tags lack \"threads\"\n");
    return 1;
  }
  const bool sharded = std::getenv("TEST_TOTAL_SHARDS") != nullptr;
  const bool listing = testing::GTEST_FLAG(list_tests);
  if (!sharded && !listing && testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test was run\n");
    return 1;
  }
  return result;
}
