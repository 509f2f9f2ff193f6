#include "base/forks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/unique_fd.h"

namespace gradwire {
namespace {

// Whether `holds` does in a child.
bool InAChild(const std::function<bool()>& holds) {
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) _exit(holds() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Whether the other end of a pipe is closed everywhere, or will be.
bool IsClosed(const UniqueFd& read_end, int patience_ms = 0) {
  pollfd end = {read_end.get(), POLLIN, 0};
  return poll(&end, 1, patience_ms) == 1 && (end.revents & POLLHUP) != 0;
}

TEST(ForkGeneration, DiffersInAChildOnly) {
  const uint32_t mine = ForkGeneration();
  EXPECT_TRUE(InAChild([&] { return ForkGeneration() != mine; }));
  EXPECT_EQ(ForkGeneration(), mine);
}

TEST(KeepFromChildren, AChildDoesNotKeepItOpen) {
  Pipe kept, inherited, word;
  ASSERT_TRUE(kept.Open().ok() && inherited.Open().ok() && word.Open().ok());
  KeepFromChildren(kept.write_end.get());
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    word.write_end.reset();
    _exit(static_cast<int>(read(word.read_end.get(), &byte, 1)));
  }
  kept.write_end.reset();
  inherited.write_end.reset();
  EXPECT_TRUE(IsClosed(kept.read_end, 20'000)) << "the child's copy goes when the child begins";
  EXPECT_FALSE(IsClosed(inherited.read_end)) << "what is not kept from it is the child's too";
  word.write_end.reset();
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(IsClosed(inherited.read_end));
}

TEST(KeepFromChildren, ACopyOfTheOwnerClosesNothingElse) {
  Pipe kept;
  ASSERT_TRUE(kept.Open().ok());
  const int number = kept.write_end.get();
  KeepFromChildren(number);
  EXPECT_TRUE(InAChild([&] {
    const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const bool was_taken = next.valid() && next.get() != number;
    kept.write_end.reset();
    return was_taken && fcntl(next.get(), F_GETFD) >= 0;
  }));
  EXPECT_FALSE(IsClosed(kept.read_end)) << "it is still the parent's";
}

TEST(KeepFromChildren, TheNextFileOfThatNumberIsInherited) {
  Pipe kept;
  ASSERT_TRUE(kept.Open().ok());
  const int number = kept.write_end.get();
  KeepFromChildren(number);
  kept.write_end.reset();
  const UniqueFd next(dup2(kept.read_end.get(), number));
  ASSERT_EQ(next.get(), number);
  EXPECT_TRUE(InAChild([&] { return IsClosed(next); })) << "a pipe without a writer";
}

}  // namespace
}  // namespace gradwire
