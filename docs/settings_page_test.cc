#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/settings.h"

namespace gradwire {
namespace {

TEST(SettingsPage, IsTheTable) {
  std::ifstream file("docs/settings.md");
  ASSERT_TRUE(file.good());
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), SettingsMarkdown())
      << "docs/settings.md is old: bazel run //docs:settings_markdown > docs/settings.md";
}

}  // namespace
}  // namespace gradwire
