#include "transports/bootstrap/launch_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace gradwire {
namespace {

TEST(LaunchBoard, TellsWhoEndedAndHow) {
  StatusOr<LaunchBoard> launcher = LaunchBoard::Make(4);
  ASSERT_TRUE(launcher.ok()) << launcher.status().ToString();
  const std::optional<LaunchBoard> rank = LaunchBoard::Open(launcher->Text(), 4);
  ASSERT_TRUE(rank);
  EXPECT_FALSE(rank->FirstEnded());
  launcher->NoteExited(3, 0);
  ASSERT_TRUE(rank->FirstEnded());
  EXPECT_EQ(rank->FirstEnded()->rank, 3);
  EXPECT_EQ(rank->FirstEnded()->how, "ended with exit code 0");
  EXPECT_FALSE(rank->HasEnded(1));
  launcher->NoteKilled(1, SIGKILL);
  EXPECT_TRUE(rank->HasEnded(1));
  EXPECT_EQ(rank->FirstEnded()->rank, 3) << "who ended later may have followed";
}

TEST(LaunchBoard, NamesTheSignal) {
  StatusOr<LaunchBoard> board = LaunchBoard::Make(2);
  ASSERT_TRUE(board.ok());
  board->NoteKilled(0, SIGKILL);
  ASSERT_TRUE(board->FirstEnded());
  EXPECT_EQ(board->FirstEnded()->how, "was killed by signal 9 (Killed)");
}

TEST(LaunchBoard, OutlivesAnExec) {
  StatusOr<LaunchBoard> launcher = LaunchBoard::Make(2);
  ASSERT_TRUE(launcher.ok());
  const std::string text = launcher->Text(), fd = text.substr(0, text.find(':'));
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", ("test -e /proc/self/fd/" + fd).c_str(), nullptr);
    _exit(2);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

TEST(LaunchBoard, AnotherFileIsNone) {
  StatusOr<LaunchBoard> launcher = LaunchBoard::Make(2), other = LaunchBoard::Make(2);
  ASSERT_TRUE(launcher.ok() && other.ok());
  const std::string text = launcher->Text();
  const std::string inode = text.substr(text.find(':'));
  EXPECT_TRUE(LaunchBoard::Open(text, 2));
  for (const std::string& wrong :
       {std::string(), std::string("nonsense"), std::string("7"), text + "x", "-1" + inode,
        "99999" + inode, other->Text().substr(0, other->Text().find(':')) + inode}) {
    EXPECT_FALSE(LaunchBoard::Open(wrong, 2)) << wrong;
  }
  EXPECT_FALSE(LaunchBoard::Open(text, 3)) << "of another number of ranks";
}

}  // namespace
}  // namespace gradwire
