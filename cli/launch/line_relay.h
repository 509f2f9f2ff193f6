// Cuts what a rank writes into whole lines and marks them, so that lines of several ranks do not
// mix.
#ifndef GRADWIRE_CLI_LAUNCH_LINE_RELAY_H_
#define GRADWIRE_CLI_LAUNCH_LINE_RELAY_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace gradwire {

// Errors of our own command, as "gradwire SUBCOMMAND: ...", by the prefix of the relay that passed
// each on first.
using ToldLines = std::map<std::string, std::string>;

class LineRelay {
 public:
  // A longer line is passed on in pieces: with a prefix each is marked like a line of its own,
  // without one nothing is added to the line, and other ranks' lines may come between.
  static constexpr size_t kMaxLineBytes = 64 << 10;

  // `prefix` goes before every line. Of relays that share `told`, which outlives them, the others
  // leave out what one of them has told: all ranks refuse a wrong command line in the same words.
  explicit LineRelay(std::string prefix, ToldLines* told = nullptr)
      : prefix_(std::move(prefix)), told_(told) {}

  // To a terminal: what holds a carriage return is passed on as it comes. It is a line that the
  // program overwrites, such as a bar of its progress.
  void PassProgress() { passes_progress_ = true; }
  bool passes_progress() const { return passes_progress_; }

  // Takes what was read and returns what is to be written now: the lines that are complete, and
  // pieces of one that is too long.
  std::string Append(std::string_view bytes);

  // What is left when the rank has closed its end; ends in a line feed unless it is empty.
  std::string Finish();

 private:
  // Of the line that is complete.
  bool IsToldByAnother() const;

  std::string prefix_;
  ToldLines* told_;  // the job's; null: every line is passed on
  bool passes_progress_ = false;
  std::string partial_;  // without a line feed
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LINE_RELAY_H_
