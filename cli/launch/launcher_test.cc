#include "cli/launch/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(Launch, SaysOnlyWhatKeptARankFromStarting) {
  const UniqueFd no_namespace(open("/dev/null", O_RDONLY | O_CLOEXEC));
  bool acted = false;
  LaunchOptions options{.command = {"sleep", "100"}, .actions = {{0, [&] { acted = true; }}}};
  options.ranks = {{}, {.net_namespace_fd = no_namespace.get()}};
  testing::internal::CaptureStderr();
  const StatusOr<int> launched = Launch(options, SteadyClock());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(launched.status().code(), gwSystemError);
  EXPECT_THAT(launched.status().ToString(), HasSubstr("network namespace"));
  EXPECT_FALSE(acted);
}

// The exit code of ranks 0 and 1 that run `script`, which has RANK, and what is said.
std::pair<int, std::string> RunTwo(const std::string& script) {
  LaunchOptions options{.command = {"/bin/sh", "-c", script}, .grace_ns = 60 * kNsPerSecond};
  options.ranks = {{.variables = {{"RANK", "0"}}}, {.variables = {{"RANK", "1"}}}};
  const ManualClock clock;  // stands still: the suspicion lasts until both are gone
  testing::internal::CaptureStderr();
  const StatusOr<int> exit_code = Launch(options, clock);
  std::string said = testing::internal::GetCapturedStderr();
  return {exit_code.ok() ? *exit_code : -1, std::move(said)};
}

TEST(Launch, ARankThatWasKilledIsTheCauseOfAnothersError) {
  const auto [exit_code, said] = RunTwo("[ $RANK = 0 ] && exit 3; sleep 0.2; kill -KILL $$");
  EXPECT_EQ(exit_code, 128 + SIGKILL);
  EXPECT_THAT(said, HasSubstr("rank 1 (process "));
  EXPECT_THAT(said, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(said, testing::Not(HasSubstr("exit code 3")));
}

TEST(Launch, OfErrorsTheFirstIsTheCause) {
  for (const char* answer : {"exit 4", "kill -ABRT $$"}) {
    const auto [exit_code, said] =
        RunTwo(std::string("[ $RANK = 1 ] && exit 3; sleep 0.2; ") + answer);
    EXPECT_EQ(exit_code, 3) << answer;
    EXPECT_THAT(said, HasSubstr("rank 1 (process ")) << answer;
    EXPECT_THAT(said, HasSubstr("ended with exit code 3")) << answer;
  }
}

TEST(Launch, AnErrorIsNotLostWhereTheOtherEndsWell) {
  const auto [exit_code, said] = RunTwo("[ $RANK = 1 ] && exit 3; sleep 0.2");
  EXPECT_EQ(exit_code, 3);
  EXPECT_THAT(said, HasSubstr("rank 1 (process "));
}

// What rank 0, which runs `script`, leaves on a terminal.
std::string ShownBy(const std::string& script) {
  LaunchOptions options{.command = {"/bin/sh", "-c", script}, .shows_progress = true};
  options.ranks = {{}};
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Launch(options, SteadyClock()).ok());
  return testing::internal::GetCapturedStderr();
}

TEST(Launch, ABarThatItsProgramLeavesUnfinishedStays) {
  EXPECT_EQ(ShownBy("printf '\\r 10%%\\r 20%%' >&2"), "\r 10%\r 20%\n");
  EXPECT_EQ(ShownBy("printf '\\r 10%%\\r\\033[K' >&2"), "\r 10%\r\x1b[K") << "it is gone";
  EXPECT_EQ(ShownBy("printf '\\r 10%%\\n' >&2"), "\r 10%\n");
}

}  // namespace
}  // namespace gradwire
