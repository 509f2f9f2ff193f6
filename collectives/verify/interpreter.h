// Interpreter: runs the schedules of all ranks in one thread, for tests: whatever a transport and a
// thread may do in time, by the roll of a die.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_INTERPRETER_H_
#define GRADWIRE_COLLECTIVES_VERIFY_INTERPRETER_H_

#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/executor.h"

namespace gradwire {

struct InterpretedRank {
  const PreparedSchedule* schedule = nullptr;
  SliceWork* work = nullptr;
};

// Runs until every rank is done. Ready steps advance in an order drawn from `seed`, one quantum or
// one fragment at a time. gwInternalError: nobody can go on; names a rank and what it waits for.
// gwMismatch: a message has another size than its receiver expects.
Status Interpret(std::span<const InterpretedRank> ranks, uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_INTERPRETER_H_
