#include "transports/ucx/ucx_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/unique_fd.h"

namespace gradwire {
namespace {

class UcxFolderTest : public testing::Test {
 protected:
  UcxFolderTest() {
    std::string name = testing::TempDir() + "/folders.XXXXXX";
    if (mkdtemp(name.data()) != nullptr) parent_ = name;
    setenv("UCX_POSIX_DIR", parent_.c_str(), 1);
  }
  ~UcxFolderTest() override { std::filesystem::remove_all(parent_); }

  int64_t Count() const {
    return std::distance(std::filesystem::directory_iterator(parent_),
                         std::filesystem::directory_iterator());
  }

  // Of a process that is killed with a file in it.
  void LeaveOne() const {
    Pipe made;
    ASSERT_TRUE(made.Open().ok());
    const pid_t pid = fork();
    if (pid == 0) {
      const auto folder = UcxFolder::Make();
      if (folder.ok()) std::ofstream(folder->path() + "/ucx_shm_posix_1") << "left";
      if (write(made.write_end.get(), "x", 1) == 1) pause();
      _exit(1);
    }
    ASSERT_GT(pid, 0);
    char byte;
    ASSERT_EQ(read(made.read_end.get(), &byte, 1), 1);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  }

  std::string parent_;
};

TEST_F(UcxFolderTest, GoesWithItsOwner) {
  {
    const auto folder = UcxFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    std::ofstream(folder->path() + "/file") << "text";
    EXPECT_EQ(Count(), 1);
    const auto name = std::filesystem::directory_iterator(parent_)->path();
    EXPECT_TRUE(name.filename().native().starts_with("gradwire-ucx.")) << name;
    EXPECT_TRUE(std::filesystem::exists(name / "file"));
  }
  EXPECT_EQ(Count(), 0);
}

TEST_F(UcxFolderTest, OnceLeftItsPathIsTheOneItWasMadeIn) {
  auto folder = UcxFolder::Make();
  ASSERT_TRUE(folder.ok());
  folder->Leave();
  EXPECT_EQ(Count(), 0);
  std::ofstream(folder->path() + "/file") << "text";
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/file"));
}

TEST_F(UcxFolderTest, OfTheDeadIsRemovedAndNoOther) {
  const auto own = UcxFolder::Make();
  ASSERT_TRUE(own.ok());
  std::filesystem::create_directory(parent_ + "/somebody-elses");
  LeaveOne();
  EXPECT_EQ(Count(), 3);
  RemoveDeadUcxFolders();
  EXPECT_EQ(Count(), 2);
  std::ofstream(own->path() + "/file") << "text";
  EXPECT_TRUE(std::filesystem::exists(own->path() + "/file"));
}

TEST_F(UcxFolderTest, IsMadeOnceTheDeadsAreGone) {
  LeaveOne();
  const auto own = UcxFolder::Make();
  EXPECT_EQ(Count(), 1);
}

TEST_F(UcxFolderTest, IsNotForFilesWhosePeersNeedTheirNames) {
  unsetenv("UCX_POSIX_USE_PROC_LINK");
  EXPECT_TRUE(UcxFolder::MayHaveOwn());
  for (const char* links : {"y", "yes", "Y", "1", "on"}) {
    setenv("UCX_POSIX_USE_PROC_LINK", links, 1);
    EXPECT_TRUE(UcxFolder::MayHaveOwn()) << links;
  }
  for (const char* links : {"n", "no", "0", "off"}) {
    setenv("UCX_POSIX_USE_PROC_LINK", links, 1);
    EXPECT_FALSE(UcxFolder::MayHaveOwn()) << links;
  }
  unsetenv("UCX_POSIX_USE_PROC_LINK");
}

TEST_F(UcxFolderTest, SaysWhereItCannotBe) {
  setenv("UCX_POSIX_DIR", (parent_ + "/missing").c_str(), 1);
  const auto folder = UcxFolder::Make();
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().code(), gwTransportUnavailable);
  EXPECT_NE(folder.status().ToString().find(parent_ + "/missing/gradwire-ucx."), std::string::npos)
      << folder.status().ToString();
  RemoveDeadUcxFolders();  // no effect
}

}  // namespace
}  // namespace gradwire
