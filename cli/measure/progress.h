// How far long work is, as the last line of a terminal.
#ifndef GRADWIRE_CLI_MEASURE_PROGRESS_H_
#define GRADWIRE_CLI_MEASURE_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/clock.h"

namespace gradwire {

struct RunFacts;

// Set for rank 0 by `gradwire run` where its own standard error is a terminal.
inline constexpr char kProgressVariable[] = "GRADWIRE_PROGRESS";

// Whether standard error is a terminal, or ends at one by way of `gradwire run`.
bool ShowsProgress();

// Standard error, or null where nothing is to be shown there, as on all ranks but one: those have
// no `facts` (RankJob::work).
std::FILE* ProgressTerminal(const RunFacts* facts);

// The line is overwritten by the next one, and gone when this is. One thread.
class Progress {
 public:
  // `terminal`: null shows nothing. Both outlive this.
  Progress(std::FILE* terminal, const Clock& clock) : terminal_(terminal), clock_(clock) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is counted from now on, as "block 3 of 12, step".
  void Begin(std::string stage) { stage_ = std::move(stage); }
  // "block 3 of 12, step 40 of 500", a few times a second at most: between measurements, not
  // within.
  void Count(int64_t done, int64_t of);
  // Before anything else is printed.
  void Clear();

 private:
  std::FILE* const terminal_;
  const Clock& clock_;
  std::string stage_;
  int64_t last_ns_ = 0;
  bool shown_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_PROGRESS_H_
