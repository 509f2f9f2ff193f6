#include "tests/lib/forked_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gradwire {
namespace {

enum Kind : uint32_t { kGather = 1, kDone = 2 };

bool ReadAll(int fd, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= got;
  }
  return true;
}

bool WriteAll(int fd, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t put = send(fd, at, bytes, MSG_NOSIGNAL);
    if (put <= 0) return false;
    at += put;
    bytes -= put;
  }
  return true;
}

bool Put(int fd, uint32_t kind, const std::string& text) {
  const uint32_t head[2] = {kind, static_cast<uint32_t>(text.size())};
  return WriteAll(fd, head, sizeof head) && WriteAll(fd, text.data(), text.size());
}

bool Get(int fd, uint32_t* kind, std::string* text) {
  uint32_t head[2];
  if (!ReadAll(fd, head, sizeof head)) return false;
  *kind = head[0];
  text->resize(head[1]);
  return ReadAll(fd, text->data(), text->size());
}

struct Child {
  pid_t pid = -1;
  UniqueFd fd;  // invalid: gone or done
  bool waits = false;
  std::string mine;
};

// The test's side: collects, distributes, buries.
class Parent {
 public:
  Parent(std::vector<Child> children, int timeout_s)
      : children_(std::move(children)),
        results_(children_.size()),
        deadline_(Deadline::After(SteadyClock(), timeout_s * kNsPerSecond)) {}

  std::vector<ForkedResult> Run() {
    while (Step()) Distribute();
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (!children_[rank].fd.valid()) continue;
      results_[rank].text = "took too long";
      kill(children_[rank].pid, SIGKILL);
      Bury(rank);
    }
    return std::move(results_);
  }

 private:
  // Waits for one message of any child. False: all are gone, or the time is up.
  bool Step() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.fd.get(), POLLIN, 0});
    bool live = false;
    for (const Child& child : children_) live |= child.fd.valid();
    if (!live || poll(fds.data(), fds.size(), deadline_.PollTimeoutMs(SteadyClock())) <= 0) {
      return false;
    }
    for (size_t rank = 0; rank < fds.size(); ++rank) {
      if (fds[rank].revents != 0) Take(rank);
    }
    return true;
  }

  void Take(size_t rank) {
    uint32_t kind = 0;
    std::string text;
    if (!Get(children_[rank].fd.get(), &kind, &text)) return Bury(rank);
    children_[rank].waits = kind == kGather;
    if (kind == kGather) {
      children_[rank].mine = std::move(text);
      return;
    }
    results_[rank].returned = true;
    results_[rank].text = std::move(text);
  }

  void Bury(size_t rank) {
    int status = 0;
    waitpid(children_[rank].pid, &status, 0);
    if (WIFSIGNALED(status)) results_[rank].signal = WTERMSIG(status);
    children_[rank] = {};
  }

  void Distribute() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      const bool busy = children_[rank].fd.valid() && !results_[rank].returned;
      if (busy && !children_[rank].waits) return;
    }
    for (const Child& to : children_) {
      for (const Child& from : children_) {
        if (to.waits) Put(to.fd.get(), kGather, from.mine);
      }
    }
    for (Child& child : children_) child.waits = false;
  }

  std::vector<Child> children_;
  std::vector<ForkedResult> results_;
  const Deadline deadline_;
};

}  // namespace

std::vector<std::string> ForkedRank::Gather(const std::string& mine) {
  std::vector<std::string> all(world_size_);
  bool ok = Put(fd_, kGather, mine);
  uint32_t kind = 0;
  for (std::string& text : all) ok = ok && Get(fd_, &kind, &text);
  if (!ok) _exit(3);  // the test's process is gone
  return all;
}

std::vector<ForkedResult> RunForked(int world_size,
                                    const std::function<std::string(ForkedRank&)>& body,
                                    int timeout_s) {
  std::vector<Child> children(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    UniqueFd test_end(ends[0]);
    const UniqueFd rank_end(ends[1]);
    const pid_t pid = fork();
    if (pid == 0) {
      // An end kept open here would hide the death of an older sibling from the test.
      children.clear();
      test_end.reset();
      ForkedRank self(rank, world_size, rank_end.get());
      const std::string text = body(self);
      Put(rank_end.get(), kDone, text);
      _exit(text.empty() ? 0 : 1);
    }
    children[rank] = {.pid = pid, .fd = std::move(test_end), .waits = false, .mine = {}};
  }
  return Parent(std::move(children), timeout_s).Run();
}

std::string Failures(const std::vector<ForkedResult>& results, int killed) {
  std::string all;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const ForkedResult& result = results[rank];
    if (static_cast<int>(rank) == killed) {
      if (result.signal != SIGKILL) all += fmt::format("rank {} was not killed; ", rank);
    } else if (!result.returned || !result.text.empty()) {
      all += fmt::format("rank {} ({}): {}; ", rank,
                         result.signal != 0 ? strsignal(result.signal) : "returned", result.text);
    }
  }
  return all;
}

}  // namespace gradwire
