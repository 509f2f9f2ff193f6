// PlanLogFile: the file that rank 0's plan log goes to, if it is wanted.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_FILE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_FILE_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/controller/decide.h"
#include "runtime/controller/plan_log.h"

namespace gradwire {

// Where it cannot be made, or cannot be written any further, a warning says so and there is no log
// from then on: a training goes on without. What is added waits for WriteOut, since a disk may be
// slow. One thread.
class PlanLogFile {
 public:
  PlanLogFile() = default;
  PlanLogFile(const PlanLogFile&) = delete;
  PlanLogFile& operator=(const PlanLogFile&) = delete;
  // Writes what waits and the last line, without which a log is one that was cut off.
  ~PlanLogFile();

  // The name that ClaimFile gives for it. No effect on a log that was begun, or that has failed.
  void Begin(std::string_view path, uint64_t job);

  // No effect without a log.
  void Add(const JobFacts& job);
  void AddKnowledge(std::string_view knowledge);
  void Add(const DecideInput& input);
  void Add(const Decision& decision);
  // Behind a decision all is in the file then.
  void WriteOut();

 private:
  void Put(std::string line);
  void EndIfFailed();

  std::string path_;  // empty: it was not begun
  std::ofstream file_;
  std::string waiting_;
  bool has_decided_ = false;  // since WriteOut
  PlanLogSeal seal_;
  int64_t inputs_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PLAN_LOG_FILE_H_
