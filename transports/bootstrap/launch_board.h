// LaunchBoard: what `gradwire run` tells the ranks of each other's processes: which have ended. Of
// one that has not joined yet no other rank can know.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCH_BOARD_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCH_BOARD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

// A file without a name. Its descriptor goes to every process that the launcher starts.
class LaunchBoard {
 public:
  static constexpr const char* kVariable = "GRADWIRE_LAUNCH_BOARD";

  struct Ended {
    int rank = 0;
    std::string how;  // "was killed by signal 9 (Killed)"
  };

  // The launcher's.
  static StatusOr<LaunchBoard> Make(int ranks);
  // A rank's, by the text of the variable. Nothing where the descriptor is another file or closed:
  // a program between the launcher and the rank may have closed what it did not know.
  static std::optional<LaunchBoard> Open(const std::string& text, int ranks);

  // What the variable is set to.
  std::string Text() const;

  void NoteExited(int rank, int exit_code) { Put(rank, exit_code + 1); }
  void NoteKilled(int rank, int signal) { Put(rank, -signal); }
  // Of the lowest number; nothing: all run.
  std::optional<Ended> FirstEnded() const;

 private:
  LaunchBoard(UniqueFd fd, int ranks) : fd_(std::move(fd)), ranks_(ranks) {}
  // 0: it runs; an exit code plus 1; a signal, negative.
  void Put(int rank, int32_t end);

  UniqueFd fd_;
  int ranks_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCH_BOARD_H_
