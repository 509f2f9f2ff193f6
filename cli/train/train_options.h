// The command line of `gradwire train`.
#ifndef GRADWIRE_CLI_TRAIN_TRAIN_OPTIONS_H_
#define GRADWIRE_CLI_TRAIN_TRAIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/models/model_shapes.h"
#include "cli/train/computation.h"
#include "cli/train/late_rank.h"

namespace gradwire {

struct TrainOptions {
  ModelShapes model;  // already scaled
  double scale = 1;   // by how much
  double compute_ms = 0;
  ComputeKind compute = ComputeKind::kDevice;
  std::vector<std::string> specs;  // at least one; not checked, that is the library's to do
  std::vector<int> round_steps;    // of each spec in each round, at least two; see PlanBlocks
  int warm_ups = 0;                // steps of each spec before the first round
  int auto_warm_ups = 0;           // further ones of each spec `auto`
  std::vector<LateRank> late;
  uint64_t seed = 1;
  int thread_ranks = 0;  // ranks as threads of this process; 0: not asked for
  std::string settings;  // of the communicator, as gwConfig_t takes them
  std::string json_path, csv_path;
  std::string record_path;  // of the messages that rank 0 sends; empty: not recorded
  std::string timeline;     // its files' name without the rank, in the folder of the JSON; or empty
  std::string command_line;  // as given
};

// An exit code, with help or the error already printed, where the command ends here.
std::optional<int> ParseTrainOptions(std::span<const std::string> args, TrainOptions* options);

// gwInvalidArgument where no step computes so long.
Status CheckComputeMs(double ms);

// "device" or "host".
std::string ComputeName(ComputeKind kind);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_TRAIN_OPTIONS_H_
