#include "cli/launch/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gradwire
