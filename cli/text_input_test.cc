#include "cli/text_input.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace gradwire {
namespace {

TEST(TextInputTest, ReadsAFileWhole) {
  const std::string path = testing::TempDir() + "/input";
  for (const std::string& text : {std::string(), std::string("a\r\n\0b", 5)}) {
    std::ofstream(path, std::ios::binary) << text;
    const StatusOr<std::string> read = ReadTextFrom(path);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, text);
  }
}

TEST(TextInputTest, WhatCannotBeReadIsTold) {
  const std::string folder = testing::TempDir() + "/folder";
  std::filesystem::create_directory(folder);
  const std::string none = "No such file or directory";
  for (const auto& [path, why] :
       {std::pair(folder, std::string("Is a directory")), {folder + "/none", none}, {"", none}}) {
    const StatusOr<std::string> read = ReadTextFrom(path);
    EXPECT_EQ(read.status().code(), gwInvalidArgument);
    EXPECT_EQ(read.status().detail().message, "cannot read '" + path + "': " + why);
  }
}

}  // namespace
}  // namespace gradwire
