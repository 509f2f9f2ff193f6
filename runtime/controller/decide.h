// Decide: from what the ranks measured to the plan they follow. A pure function of its arguments:
// the same inputs give the same decisions, so a log of the inputs replays a whole run.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_DECIDE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_DECIDE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/controller/model.h"
#include "runtime/controller/observation.h"
#include "runtime/controller/plan.h"
#include "runtime/controller/trial.h"
#include "runtime/controller/trial_limits.h"

namespace gradwire {

// Predicted over running: a plan is not tried unless it is faster than this.
inline constexpr double kWorthTrying = 0.97;

// A candidate tried by rank 0 on a piece of a gradient, besides the training.
struct ProbeResult {
  int candidate = 0;
  int64_t elems = 0;             // of the piece
  double codec_us_per_elem = 0;  // of what a rank encodes and decodes in a step
  double relative_error = 0;     // |x - decoded|^2 / |x|^2
};

struct DecideInput {
  uint16_t turn = 0;  // whose result will bring the decision
  StepInput step;     // the one before it
  std::vector<ProbeResult> probes;
  bool unplanned = false;  // no plan was decided on before: all tensors that may are on bf16
};

// Plan A from a turn on; where B differs the two are compared.
struct Decision {
  uint16_t from_turn = 0;
  Plan a, b;
  uint8_t in_a_row = kInARow;  // steps of either while they are compared
  std::string why;
  double predicted_us = 0;  // of the new plan; 0: nothing is known yet
  double was_us = 0;        // of the plan before
};

// What came of the decision made last, from the first window of steps under its plan.
struct Outcome {
  double measured_us = 0;  // a step
  // Of the compressed tensor that is nearest to its bound, or furthest beyond; nothing where none
  // is compressed: the distance that its codec has to keep, and its bound.
  std::optional<double> distance;
  double bound = 0;
};

// Limits of what a Memory holds, also of one that is read from a file; docs/controller.md has the
// reason for each.
//
// A rung that was beyond its bound is left alone for so many windows.
inline constexpr int kForbidWindows = 64;
// More elements of a probe's piece tell no more.
inline constexpr int64_t kTellingPieceElems = 16384;
inline constexpr double kMaxSlowdown = 2;

// What Decide remembers from step to step. Nobody else writes it.
struct Memory {
  // What the warm-up measures; then no more. kResumed: a saved state takes its place.
  enum class Phase : uint8_t { kBf16, kNone, kSettled, kResumed };

  struct Medians {  // of a window; 0: not measured
    double step_us = 0, busy_us = 0, compute_us = 0;
  };
  struct Tested {  // of a candidate
    double relative_error = -1;
    int64_t at_step = 0;
    int64_t probed_elems = 0;            // of the piece that told most of its cost
    std::optional<int64_t> ran_at_step;  // the last step of training that told its cost
  };
  struct Tried {  // a plan
    Plan plan;
    Medians medians;  // the step's as it would be now, or, without the others, at least
    int64_t at_step = 0;
    // Once the others are missing: what it took with them, and the running plan's step over what
    // that took then.
    double took_us = 0, factor = 1;
    bool is_current() const { return medians.busy_us > 0; }
    // The running plan's step takes `change` times what it took: what that of this one takes at
    // least. By all changes together, or a link that goes to and fro would make it ever less.
    void KeepAtLeast(double change) {
      if (took_us == 0) took_us = medians.step_us;
      factor *= change;
      medians = {.step_us = std::min(factor, 1.0) * took_us};
    }
  };
  struct Measured {             // of a tensor on its present rung
    double relative_error = 0;  // 0: not measured
    int windows_over_bound = 0;
  };

  // Two plans that run by turns: the running one, A, and B.
  struct Comparison {
    Plan b;
    Trial trial;
    double predicted_us = 0, was_us = 0;            // told when it was decided on
    std::vector<StepInput> steps_of_a, steps_of_b;  // that tell how long their plan takes
    int stale_steps = 0;               // the last ones in a row, too long to be measurements
    std::optional<uint16_t> stale_at;  // the last such step, counted from the first of all
    bool has_b_stalled = false;        // it ends: two of B's steps in a row were stale
  };

  // Trials of plans that no model proposes. Each has a subject: the tensor in which it differs from
  // the running plan, or, numbered behind the tensors, the rung that all tensors are on.
  struct Exploration {
    std::optional<size_t> subject;  // of the one that is under way
    std::vector<int> lost;          // by subject, since one was won or a change was noticed
    int64_t not_before_step = 0;
  };

  Phase phase = Phase::kBf16;
  int64_t steps = 0, windows = 0;
  uint16_t from_turn = 0;  // of the decision in effect or under way
  bool in_effect = false;
  bool to_tell = false;            // what came of the last decision
  std::optional<Outcome> outcome;  // of it, in the one step that completes its first window
  Plan running;
  std::optional<Plan> to_verify;  // left for `running` without a trial that has ended yet
  std::optional<Comparison> comparison;
  std::vector<StepInput> window;  // steps of the running plan since the last one was full
  bool skipped_first = false;     // step of the running plan
  bool changed = false;           // the network or the compute, since the last window
  // A step of the running plan took when it ran before; 0: unknown, or compared already.
  double expected_us = 0;
  std::deque<double> recent_us;  // step times of the running plan
  double usual_us = 0;           // their median; 0: none is known
  int outside = 0;               // the last ones that lay far from the others
  ModelState model;
  double scale = 1;          // measured over predicted
  std::vector<Tried> tried;  // by top rung: the running plan, or the one measured last
  bool model_off = false;
  std::optional<int64_t> misled_at_step;  // a plan was switched to at once and lost
  Exploration exploration;
  int64_t last_baseline_step = 0;
  bool blind_took_bf16 = false;  // the last baseline of a job that did not see its wire
  bool left_out_none = false;    // in the warm-up, for a plan not compared with bf16 yet
  bool none_ruled_out = false;   // by that comparison; no change was noticed since
  std::vector<Tested> candidates;
  std::vector<Measured> tensors;
  std::vector<double> alike;                    // by tensor: Ranks::alike, as seen last
  std::vector<std::vector<int64_t>> forbidden;  // by tensor and rung: until this window
  PlanBans bans;
  TrialBudget budget;
};

// Once for every committed step, in order. A decision that changes nothing is none.
std::optional<Decision> Decide(const JobFacts& job, const DecideInput& input, Memory* memory);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_DECIDE_H_
