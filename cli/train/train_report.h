// What rank 0 prints and writes: the table as rows finish, the files at the end.
#ifndef GRADWIRE_CLI_TRAIN_TRAIN_REPORT_H_
#define GRADWIRE_CLI_TRAIN_TRAIN_REPORT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/measure/run_facts.h"
#include "cli/train/train_options.h"
#include "cli/train/train_row.h"

namespace gradwire {

class TrainReport {
 public:
  // `options` outlive this.
  explicit TrainReport(const TrainOptions& options);

  // The table goes to standard output unless JSON or CSV does.
  void PrintHeader(const RunFacts& facts);
  void AddWarmUp(size_t spec, std::vector<StepTime> steps);
  void Add(BlockResult block);
  // After all blocks.
  void AddPlanChanges(size_t spec, std::vector<PlanChange> changes) {
    rows_[spec].plan_changes = std::move(changes);
  }
  void PrintFooter(const RunFacts& facts) const;
  Status WriteFiles(const RunFacts& facts) const;

  std::string Json(const RunFacts& facts) const;
  std::string Csv() const;

 private:
  void Print(std::string_view line) const;
  bool IsComplete(size_t spec) const;

  const TrainOptions& options_;
  std::vector<std::vector<StepTime>> warm_ups_;   // of each spec
  std::vector<std::vector<BlockResult>> blocks_;  // of each spec, in the order of their rounds
  std::vector<TrainRow> rows_;                    // in the order of the specs, as they finish
  size_t spec_width_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_TRAIN_REPORT_H_
