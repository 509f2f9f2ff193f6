// Ranks as processes, for tests of what threads cannot show: death, and UCX's state per process.
#ifndef GRADWIRE_TESTS_LIB_FORKED_RANKS_H_
#define GRADWIRE_TESTS_LIB_FORKED_RANKS_H_

#include <functional>
#include <string>
#include <vector>

namespace gradwire {

// What a rank's body gets. The other end of its socket is the test's process.
class ForkedRank {
 public:
  ForkedRank(int rank, int world_size, int fd) : rank_(rank), world_size_(world_size), fd_(fd) {}

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Every live rank's `mine`, in rank order; empty for those that are dead. All live ranks call it.
  std::vector<std::string> Gather(const std::string& mine);
  // Returns once all live ranks are here.
  void Barrier() { Gather("here"); }

 private:
  int rank_, world_size_, fd_;
};

struct ForkedResult {
  bool returned = false;  // else it was killed, crashed, or took too long
  int signal = 0;         // that ended it
  std::string text;       // what the body returned: empty means passed
};

// Runs `body` in world_size processes forked from this one, which must have no threads and must not
// have used UCX. Kills what is left after `timeout_s`.
std::vector<ForkedResult> RunForked(int world_size,
                                    const std::function<std::string(ForkedRank&)>& body,
                                    int timeout_s = 60);

// Everything that is not as it should be after RunForked; empty: all ranks but `killed` returned
// passed, and that one (-1: none) died of SIGKILL.
std::string Failures(const std::vector<ForkedResult>& results, int killed = -1);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_FORKED_RANKS_H_
