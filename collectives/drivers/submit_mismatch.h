// The errors of ranks that submit different operations, or different numbers of them up to the end
// of a step, whoever finds it. Exact operations in front of gwStepBegin count too: they are of the
// same turn.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_SUBMIT_MISMATCH_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_SUBMIT_MISMATCH_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace gradwire {

inline constexpr char kSubmittedField[] = "operations since the last step";
inline constexpr char kSubmittedHint[] =
    "All ranks must submit the same operations, in steps and between them";
// Before a number that was heard of a rank, which may have submitted more.
inline constexpr char kAtLeast[] = "at least ";

// `expected` and `actual` are numbers, each with its rank: "3 (rank 1)".
inline Status SubmitMismatch(std::string expected, std::string actual, int peer = -1) {
  return Status(
      gwMismatch,
      {.message = "the ranks have submitted different numbers of operations since the last step",
       .hint = kSubmittedHint,
       .peer = peer,
       .field = kSubmittedField,
       .expected = std::move(expected),
       .actual = std::move(actual)});
}

// Of the operation with that number; which they are tells the vote.
inline Status OperationMismatch(uint32_t op_seq) {
  return Status(gwMismatch, fmt::format("the ranks submit different operations as #{}", op_seq),
                "Submit the same operations, with the same arguments, in the same order on all "
                "ranks");
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_SUBMIT_MISMATCH_H_
