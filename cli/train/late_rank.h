// A rank that is late on purpose.
#ifndef GRADWIRE_CLI_TRAIN_LATE_RANK_H_
#define GRADWIRE_CLI_TRAIN_LATE_RANK_H_

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/status.h"

namespace gradwire {

// It computes so much longer, in the forward pass, from a step on.
struct LateRank {
  int rank = 0;
  double ms = 0;
  uint64_t first_step = 0;
  uint64_t steps = std::numeric_limits<uint64_t>::max();

  // What is added to the computing of `of_rank` in `step`.
  double MsIn(int of_rank, uint64_t step) const {
    return of_rank == rank && step >= first_step && step - first_step < steps ? ms : 0;
  }
};

// "RANK:MS[:FIRST[:STEPS]]", as "1:40" or "1:40:100:2". gwInvalidArgument otherwise.
StatusOr<LateRank> ParseLateRank(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_LATE_RANK_H_
