// Which runs of a turn peers may still send for: what is complete here, or was never submitted, is
// a mismatch.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_AWAITED_RUNS_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_AWAITED_RUNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "collectives/drivers/run_key.h"

namespace gradwire {

class AwaitedRuns {
 public:
  explicit AwaitedRuns(int rank) : rank_(rank) {}

  // Forgets everything: the new turn gives the names again.
  void BeginTurn() { *this = AwaitedRuns(rank_); }

  // A slice begins here, one of `slices` of its operation: in order of operations and slices.
  void Admit(uint32_t op_seq, uint32_t slice, int64_t slices);
  // One of its runs begins, in order.
  void Begin(const RunKey& key);
  // The slice is complete.
  void Retire(uint32_t op_seq, uint32_t slice);
  // All operations below it are complete.
  void SetCompletedBelow(uint32_t op_seq) { completed_below_ = op_seq; }
  // There are so many operations and no more.
  void SetSubmitted(uint32_t operations) { submitted_ = operations; }

  // OK: `peer` may send for this run, which is not under way here, because it may still begin.
  // Until a slice is admitted all are awaited that SetCompletedBelow and SetSubmitted let pass.
  Status Check(int peer, const RunKey& key) const;

 private:
  struct Slice {
    uint32_t op_seq = 0;
    uint32_t slice = 0;
    uint8_t runs = 0;  // begun, may wrap
  };

  Status CheckIncomplete(int peer, const RunKey& key) const;
  const Slice* Find(const RunKey& key) const;

  int rank_;
  uint32_t completed_below_ = 0;
  std::vector<Slice> admitted_;  // not retired; at most the window
  std::optional<Slice> last_admitted_;
  int64_t last_admitted_slices_ = 0;   // of its operation
  std::optional<uint32_t> submitted_;  // once that is final
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_AWAITED_RUNS_H_
