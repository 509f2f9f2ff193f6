// Results of `gradwire train`, and their forms: table, CSV, JSON.
#ifndef GRADWIRE_CLI_TRAIN_TRAIN_ROW_H_
#define GRADWIRE_CLI_TRAIN_TRAIN_ROW_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "cli/measure/plan_change.h"
#include "cli/train/block_plan.h"
#include "cli/train/paired_ratio.h"

namespace gradwire {

// The largest over the ranks, but for when it begins.
struct StepTime {
  double step_ms = 0;     // gwStepBegin to the end of gwStepEnd
  double compute_ms = 0;  // gwStepBegin to the submit of the last gradient
  double begin_s = 0;     // by the monotonic clock of this rank's machine

  double exposed_ms() const { return step_ms - compute_ms; }
};

// What was measured in a block, equal on all ranks but for `codecs`. Its first step flushes what
// the spec before has left behind: nothing but `steps` has it.
struct BlockResult {
  Block block;
  uint64_t first_step = 0;            // number of its first step
  std::vector<StepTime> steps;        // with the first
  double wire_bytes = 0;              // sent by a rank in a step, headers and votes included
  double relerr = 0;                  // error of what was encoded, relative to it, in the last step
  std::map<std::string, int> codecs;  // tensors by the spec that this rank's ledger tells, likewise

  std::span<const StepTime> counted() const { return std::span(steps).subspan(1); }
};

// One spec over its blocks.
struct TrainRow {
  std::string spec;
  double step_ms = 0, step_p10_ms = 0, step_p90_ms = 0;  // over all counted steps
  double compute_ms = 0, exposed_ms = 0;                 // medians
  double wire_bytes = 0, relerr = 0;                     // means over the blocks
  PairedRatio ratio;                                     // of step times to the first spec's
  std::vector<StepTime> warm_up;                         // steps before the first round
  std::vector<BlockResult> blocks;                       // in the order of their rounds
  std::vector<PlanChange> plan_changes;                  // from its first step on
};

// `blocks` and `base` are of this and of the first spec, one of each round; `base` null: this is
// the first, which is compared with nothing.
TrainRow MakeRow(const std::string& spec, std::vector<BlockResult> blocks,
                 const std::vector<BlockResult>* base, uint64_t seed);

// Lines without line feeds; `spec_width`: of the column.
std::string TrainTableHeader(size_t spec_width);
std::string TrainTableRow(const TrainRow& row, size_t spec_width);

std::string TrainCsvHeader();
std::string TrainCsvLine(const TrainRow& row);

// With the times of every step.
JsonValue TrainRowJson(const TrainRow& row);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_TRAIN_ROW_H_
