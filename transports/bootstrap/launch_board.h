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

// "ended with exit code 3", "was killed by signal 9 (Killed)".
std::string HowItExited(int exit_code);
std::string HowItWasKilled(int signal);

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

  void NoteExited(int rank, int exit_code) { NoteEnd(rank, exit_code + 1); }
  void NoteKilled(int rank, int signal) { NoteEnd(rank, -signal); }
  // Who ended before all others; nothing: all run.
  std::optional<Ended> FirstEnded() const;
  bool HasEnded(int rank) const { return Get(1 + rank) != 0; }

 private:
  explicit LaunchBoard(UniqueFd fd) : fd_(std::move(fd)) {}
  // An exit code plus 1; a signal, negative.
  void NoteEnd(int rank, int32_t end);
  // Of int32_t: who ended first, plus 1, then the end of each rank; 0: none.
  int32_t Get(int entry) const;
  void Put(int entry, int32_t value);

  UniqueFd fd_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCH_BOARD_H_
