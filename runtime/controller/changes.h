// Changes: what was decided, as people read it: a line of the log and a row of the ledger each.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_CHANGES_H_
#define GRADWIRE_RUNTIME_CONTROLLER_CHANGES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "runtime/controller/decide.h"

namespace gradwire {

// A decision is told when all is known of it: once it was measured, or will not be any more.
class Changes {
 public:
  Changes() = default;
  ~Changes();
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  // In the vote on `step`; `before` was in effect.
  void Add(const JobFacts& job, uint64_t step, const Decision& decision, const Plan& before);
  // What came of the last one.
  void NoteOutcome(const Outcome& outcome);

  // An array: the last decisions, the oldest first.
  std::string Json() const;

 private:
  struct Change {
    uint64_t step = 0;
    std::string text, why;
    double predicted_us = 0, was_us = 0;
    std::optional<Outcome> outcome;  // once it has been measured
    bool is_told = false;
    std::string Numbers() const;
    std::string Json() const;
  };

  void TellLast();

  std::deque<Change> changes_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_CHANGES_H_
