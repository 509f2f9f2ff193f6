#include "cli/text_output.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
  EXPECT_EQ(TextOf(path), "second");
}

TEST(WriteTextTo, LeavesTheOldFileWhereTheNewOneIsNotWhole) {
  const std::string path = testing::TempDir() + "/results";
  ASSERT_TRUE(WriteTextTo(path, "old").ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteTextTo(path, std::string(1 << 20, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_EQ(status.code(), gwSystemError);
  EXPECT_NE(status.ToString().find("File too large"), std::string::npos) << status.ToString();
  EXPECT_EQ(TextOf(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(WriteTextTo, KeepsTheMode) {
  const std::string path = testing::TempDir() + "/private";
  ASSERT_TRUE(WriteTextTo(path, "old").ok());
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_TRUE(WriteTextTo(path, "new").ok());
  EXPECT_EQ(TextOf(path), "new");
  EXPECT_EQ(static_cast<int>(std::filesystem::status(path).permissions()), 0600);
}

TEST(WriteTextTo, WritesIntoAPipeByItsNumber) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(WriteTextTo("/dev/fd/" + std::to_string(ends[1]), "text").ok());
  close(ends[1]);
  char read_back[8] = {};
  EXPECT_EQ(read(ends[0], read_back, sizeof read_back), 4);
  EXPECT_STREQ(read_back, "text");
  close(ends[0]);
}

TEST(WriteTextTo, FollowsLinks) {
  const std::string path = testing::TempDir() + "/linked", link = testing::TempDir() + "/link";
  ASSERT_TRUE(WriteTextTo(path, "old").ok());
  std::filesystem::create_symlink(path, link);
  ASSERT_TRUE(WriteTextTo(link, "new").ok());
  EXPECT_EQ(TextOf(path), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::filesystem::remove(path);
  ASSERT_TRUE(WriteTextTo(link, "new again").ok());
  EXPECT_EQ(TextOf(path), "new again");
}

TEST(CsvText, IsOneCellWhateverItHolds) {
  EXPECT_EQ(CsvText("topk(0.01)"), "\"topk(0.01)\"");
  EXPECT_EQ(CsvText("auto(allow=\"topk,acp\")"), "\"auto(allow=\"\"topk,acp\"\")\"");
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
  EXPECT_EQ(TextOf(kept), "text");
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
