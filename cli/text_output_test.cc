#include "cli/text_output.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

TEST(FormatColumns, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(FormatColumns({{"a", "long cell", "x"}, {"wide", "b"}, {}, {"", "", "y"}}),
            "a     long cell  x\n"
            "wide  b\n"
            "\n"
            "                 y\n");
  EXPECT_EQ(FormatColumns({}), "");
}

TEST(WriteTextTo, ReplacesAFile) {
  const std::string path = testing::TempDir() + "/text_output";
  ASSERT_TRUE(WriteTextTo(path, "a longer first text").ok());
  ASSERT_TRUE(WriteTextTo(path, "second").ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "second");
}

TEST(WriteTextTo, SaysWhereItCannotWrite) {
  const Status status = WriteTextTo("/nowhere/at/all", "text");
  EXPECT_EQ(status.code(), gwSystemError);
  EXPECT_NE(status.ToString().find("'/nowhere/at/all': No such file"), std::string::npos);
}

TEST(CheckOutputs, TriesFilesAndLeavesThemAsTheyAre) {
  const std::string kept = testing::TempDir() + "/kept", fresh = testing::TempDir() + "/fresh";
  ASSERT_TRUE(WriteTextTo(kept, "text").ok());
  const auto check = [](std::vector<std::string> paths) { return CheckOutputs(paths); };
  EXPECT_TRUE(check({kept, "", fresh, "-", ""}).ok());
  std::ifstream file(kept);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "text");
  EXPECT_FALSE(std::filesystem::exists(fresh));
  EXPECT_EQ(check({kept, "/nowhere/at/all"}).code(), gwSystemError);
  for (const std::string& twice : {std::string("-"), kept})
    EXPECT_EQ(check({twice, "", twice}).code(), gwInvalidArgument) << twice;
}

// It would tell the pipe's reader that all is over.
TEST(CheckOutputs, LeavesPipesAlone) {
  const std::string pipe = testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(CheckOutputs({&pipe, 1}).ok()) << "waits for a reader where it opens it";
}

TEST(CheckReplacesNone, KnowsAFileByOtherNames) {
  const std::string path = testing::TempDir() + "/input";
  const std::string other = testing::TempDir() + "/./input";
  ASSERT_TRUE(WriteTextTo(path, "text").ok());
  EXPECT_EQ(CheckReplacesNone(other, {&path, 1}).code(), gwInvalidArgument);
  EXPECT_TRUE(CheckReplacesNone(path + "2", {&path, 1}).ok());
  EXPECT_TRUE(CheckReplacesNone("-", {&path, 1}).ok());
}

TEST(ReportError, TellsWrongArgumentsFromFailures) {
  EXPECT_EQ(ReportError("test", Status(gwInvalidArgument, "wrong")), kExitUsage);
  EXPECT_EQ(ReportError("test", Status(gwSystemError, "broken")), kExitFailed);
}

}  // namespace
}  // namespace gradwire
