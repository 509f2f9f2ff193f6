// Schedules and their messages as a person reads them, or as JSON: what `gradwire schedule` shows.
#ifndef GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_
#define GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json_value.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "compress/carrier_method.h"
#include "compress/registry.h"

namespace gradwire {

// What an operation would carry.
struct RunShape {
  int64_t elems = 0;  // as NCCL counts them for the collective
  DType dtype = DType::kFloat32;
  int64_t slice_elems = 0;
  // Of a tensor. Its sizes do not depend on data.
  std::optional<Codec> codec;
  std::array<int64_t, 2> matrix = {0, 0};  // the shape of that tensor

  bool encoded() const { return codec.has_value() && codec->payload != nullptr; }
};

// One message of the operation; bytes are without headers.
struct ScheduledMessage {
  int src = 0, dst = 0;
  int64_t slice = 0;
  uint8_t run = 0;  // of the slice: a carrier method's rounds are one or more each
  int32_t message = 0, round = 0;
  int64_t bytes = 0;
};

TensorMeta MetaOf(const RunShape& shape);

// The schedules of all ranks, in rank order, or of `rank` alone where it is none below 0.
std::vector<Schedule> MakeSchedules(const AlgorithmRow& algorithm, int ranks, int root,
                                    int rank = -1);

// The messages of the operation, or a few more: without making them.
double EstimateMessages(const AlgorithmRow& algorithm, int ranks, const RunShape& shape);

// All messages of the operation, by slice, run, round and sender: what the runtime sends for these
// schedules, computed by the code that sends it. `schedules` are those of all ranks. Of a carrier
// method they are those of a tensor's first operation.
std::vector<ScheduledMessage> ListMessages(std::span<const Schedule> schedules,
                                           const RunShape& shape);

// The steps of one rank as a table.
std::string ScheduleTable(const Schedule& schedule);
std::string MessageTable(std::span<const ScheduledMessage> messages);

JsonValue MessagesJson(std::span<const ScheduledMessage> messages);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_SCHEDULE_SCHEDULE_VIEW_H_
