// Schedules and their messages as a person reads them, or as JSON: what `gradwire schedule` shows.
#ifndef GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_
#define GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json_value.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "compress/registry.h"

namespace gradwire {

// What the run of a schedule would carry.
struct RunShape {
  int64_t elems = 0;  // as NCCL counts them for the collective
  DType dtype = DType::kFloat32;
  int64_t slice_elems = 0;
  std::optional<Codec> codec;  // of an encoded algorithm; it has a payload codec
};

// One message of the run; bytes are without headers.
struct ScheduledMessage {
  int src = 0, dst = 0;
  int64_t slice = 0;
  int32_t message = 0, round = 0;
  int64_t bytes = 0;
};

// The schedules of all ranks, in rank order, or of `rank` alone where it is none below 0.
std::vector<Schedule> MakeSchedules(const AlgorithmRow& algorithm, int ranks, int root,
                                    int rank = -1);

// The messages of the run, or a few more: without making them.
double EstimateMessages(const AlgorithmRow& algorithm, int ranks, const RunShape& shape);

// All messages of the run, by slice, then round, then sender: what the runtime sends for these
// schedules, computed by the code that sends it. `schedules` are those of all ranks.
std::vector<ScheduledMessage> ListMessages(std::span<const Schedule> schedules,
                                           const RunShape& shape);

// The steps of one rank as a table.
std::string ScheduleTable(const Schedule& schedule);
std::string MessageTable(std::span<const ScheduledMessage> messages);

JsonValue MessagesJson(std::span<const ScheduledMessage> messages);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_
