// Schedules as JSON, for `gradwire schedule` and for tools outside.
#ifndef GRADWIRE_COLLECTIVES_SCHEDULE_JSON_H_
#define GRADWIRE_COLLECTIVES_SCHEDULE_JSON_H_

#include <span>

#include "base/json_value.h"
#include "collectives/schedule.h"
#include "collectives/shard_bytes.h"

namespace gradwire {

// One rank's schedule: buffers with role and logical shards; steps with kind, round, regions
// [buffer, first, count], peer, message and deps. What a step does not use is left out. The hash is
// a string of 16 hexadecimal digits.
JsonValue ScheduleToJson(const Schedule& schedule);

// All messages of one slice in the order of their rounds, then of their senders:
// {"src": 0, "dst": 1, "slice": 2, "message": 0, "round": 0, "bytes": 4096}. Bytes are without
// headers; a bare header has 0.
JsonValue MessagesToJson(std::span<const Schedule> schedules, int64_t slice,
                         const ShardBytes& bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEDULE_JSON_H_
