// Turn: the all-rank agreement that ends a training step. Rank 0 collects one vote a rank and
// decides; the result is the same everywhere. Sans threads and clock; docs/reliability.md has the
// rules.
#ifndef GRADWIRE_RUNTIME_ENGINE_TURN_H_
#define GRADWIRE_RUNTIME_ENGINE_TURN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/engine/operation.h"
#include "transports/control/message.h"

namespace gradwire {

enum class NonFinitePolicy : uint8_t { kPropagate, kSkip, kError };

// How a turn ended, the same on all ranks.
struct TurnResult {
  uint16_t turn = 0;
  uint64_t step = 0;
  StepOutcome outcome = StepOutcome::kCommit;
  // Why it was skipped or aborted. Of a mismatch, values name their ranks and nothing the finder;
  // `op` is empty where the ranks disagree in it. Of a time-out in an operation, `peer` is the
  // first rank whose caller had not come to it; where all had, whom the finder awaited.
  Status reason;
  std::string order;  // what the result brought besides, opaque here; only of a commit
  // Of an abort: codecs have worked outside steps in this turn, and a rank did not come to the end
  // of it as others may have. No vote takes that back, so what they count and keep alike on all
  // ranks begins anew.
  bool begins_anew = false;
  // Then: no rank has drawn outside steps by this number or a later one.
  uint32_t draws = 0;
};

// One vote as rank 0 keeps it.
struct Vote {
  VoteFields fields;
  std::string op_text;  // of a vote against: the rank's text of the operation in doubt, or empty
  std::string nonfinite_tensor;  // where a result was not finite
  // The rank's EncodeTensorList as told last; the keeper's, so that steps do not copy it. Null:
  // never told.
  const std::string* table = nullptr;
};

// What rank 0 decides from all votes, in rank order. `revoked` is the reason known to rank 0,
// success if the step was not revoked. A pure function.
TurnResult DecideTurn(uint16_t turn, const std::vector<Vote>& votes, const Status& revoked,
                      NonFinitePolicy policy);

// Fills `field`, `expected` and `actual` of a mismatch from the ranks' texts: the first field with
// two values, each with the ranks that hold it; `peer` is who stands alone against several, or
// nobody. Ranks without a text do not count. No effect where all texts agree.
Status WithDifference(Status mismatch, const std::vector<std::string>& op_texts);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_TURN_H_
