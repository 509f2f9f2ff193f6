// Operation: what a caller submitted, as the engine sees it: slices to run, and how it ended.
#ifndef GRADWIRE_RUNTIME_ENGINE_OPERATION_H_
#define GRADWIRE_RUNTIME_ENGINE_OPERATION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "collectives/schemes/slice_op.h"

namespace gradwire {

// What ranks must agree on, readable: ("count", "1024"), ("dtype", "float"), ... in one order
// everywhere. Names and values hold no line breaks.
using OpText = std::vector<std::pair<std::string, std::string>>;

std::string EncodeOpText(const OpText& text);
OpText DecodeOpText(std::string_view text);  // any bytes; unreadable lines are left out
uint64_t HashOpText(const OpText& text);
// Empty: nothing is called that.
std::string FindInOpText(const OpText& text, std::string_view name);

// What an operation's slices are like.
struct SliceTraits {
  double fill = 1;    // of the most that a slice may have, from 0 to 1
  uint64_t kind = 0;  // those of one take equally long where nothing is in their way; 0: unequal
};

// SliceTraits::fill of a slice with so many elements.
inline double FillOf(int64_t elems, int64_t most_elems) {
  return std::min(1.0, static_cast<double>(elems) / static_cast<double>(most_elems));
}

class Operation {
 public:
  virtual ~Operation() = default;

  // What the ranks must agree on. Made only when they do not, so it may be slow.
  virtual OpText Text() const = 0;
  // Equal on two ranks if and only if (but for a collision) their texts are.
  virtual uint64_t Signature() const { return HashOpText(Text()); }

  // Called once by the engine, before anything of the operation is admitted and after the turn
  // before it has ended: state that the vote may flip is looked at here, not at submission.
  // What it finds may be part of what the ranks must agree on: it may change `signature`.
  virtual Status Prepare() { return Status(); }
  // Valid after Prepare; at least 1.
  virtual int64_t slices() const = 0;
  // Of all slices but the last. Valid after Prepare.
  virtual SliceTraits Traits() const { return {}; }
  // Slices are made in order, each when it is admitted.
  virtual StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t index) = 0;
  // All slices are done. Called by the engine, once, before `done`.
  virtual void OnComplete() {}
  // The operation ends without being complete. Called by the engine, once, before `done`.
  virtual void OnFailed() {}

  // Set by the submitter.
  std::string name;     // "all-reduce"
  std::string tensor;   // first registered tensor, for error texts
  uint16_t turn = 0;    // of the step it was submitted in
  bool in_step = true;  // else its values are no concern of the vote's
  // Behind the last number by which its dithers outside steps are drawn; 0: none is.
  uint32_t draws_end = 0;
  // How long it may stand still, and the variable to raise where that is too short; 0:
  // op_timeout_ms.
  struct Patience {
    int64_t ns = 0;
    const char* variable = "GRADWIRE_OP_TIMEOUT_MS";
  };
  Patience patience;
  // How it is done, for the statistics.
  struct Course {
    const AlgorithmRow* algorithm = nullptr;  // a row of the registry
    int root = 0;
    bool is_filled = false;  // a codec fills what the schedule moves
  };
  Course course;
  // For the record: what the caller passed.
  int64_t bytes = 0;
  std::optional<DType> dtype;
  // Set by the engine at submission.
  uint32_t op_seq = 0;
  uint64_t signature = 0;
  int64_t submit_ns = 0;
  // Valid when `done`.
  int64_t complete_ns = 0;
  SliceStats stats;
  uint64_t replicated_digest = 0;  // of the state that it stages, equal on all ranks; 0: none
  // Where stats.nonfinite tells of a result, or this of what the rank itself has brought, the
  // tensor; `tensor` where nothing closer is known.
  bool nonfinite_gradient = false;
  std::string nonfinite_tensor;
  Status status;
  std::atomic<bool> done{false};  // set last, with release order
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_OPERATION_H_
