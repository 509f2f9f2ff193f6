// Model: how long a training step takes under a plan. docs/controller.md has the formulas.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_MODEL_H_
#define GRADWIRE_RUNTIME_CONTROLLER_MODEL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradwire {

// The controller counts in microseconds; people read milliseconds.
inline constexpr double kUsPerMs = 1000;

// How what the ranks' encodings lose comes together in the sum.
enum class ErrorSum : uint8_t {
  kOwned,   // each rank loses something of its own, and owners of parts lose more of the sum
  kOwn,     // each rank loses something of its own
  kCommon,  // all lose the same places, and so does the sum
};
std::string_view Name(ErrorSum errors);
std::optional<ErrorSum> FindErrorSum(std::string_view name);

// A codec with its bound, that some tensor may use.
struct Candidate {
  std::string spec;
  bool feedback = false;
  double bound = 0;
  ErrorSum errors = ErrorSum::kOwned;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// One rung of a tensor's ladder.
struct JobRung {
  int candidate = -1;     // of JobFacts::candidates; negative: this tensor cannot use it
  double wire_bytes = 0;  // that each rank sends
  double messages = 1;    // likewise, before the first slice is there
  bool usable() const { return candidate >= 0; }
  friend bool operator==(const JobRung&, const JobRung&) = default;
};

struct JobTensor {
  uint64_t id = 0;
  std::string name;
  int64_t elems = 0;
  std::vector<JobRung> ladder;  // none first, then bf16
  friend bool operator==(const JobTensor&, const JobTensor&) = default;
};

// What does not change while the same tensors are registered.
struct JobFacts {
  int world_size = 1;
  int64_t slice_elems = 1;
  std::vector<Candidate> candidates;
  std::vector<JobTensor> tensors;  // in order of id
  friend bool operator==(const JobFacts&, const JobFacts&) = default;
};

// A rung for each tensor of the job.
using Plan = std::vector<uint8_t>;

// What has been measured.
struct ModelState {
  double us_per_message = 0;              // of the wire, whatever is in it
  double us_per_byte = 0;                 // likewise, reducing included
  double compute_us = 0;                  // of a step in which no codec runs
  double slowdown = 0;                    // compute time that a unit of codec time adds
  std::vector<double> ready_us;           // by tensor: submitted, since the step began
  std::vector<double> codec_us_per_elem;  // by candidate; negative: not known
};

// Encoding and decoding one tensor; 0 where that has not been measured.
double CodecUs(const JobFacts& job, const ModelState& state, int tensor, int rung);
// An operation is under way so long in sum if none waits for another rank.
double BusyUs(const JobFacts& job, const ModelState& state, const Plan& plan);
double WireBytes(const JobFacts& job, const Plan& plan);
double Messages(const JobFacts& job, const Plan& plan);
double BytesPerMessage(const JobFacts& job, const Plan& plan);
double StepUs(const JobFacts& job, const ModelState& state, const Plan& plan);

// Likewise if the codec of one tensor and the wire of another work at the same time, which StepUs
// takes one after the other.
double OverlappedStepUs(const JobFacts& job, const ModelState& state, const Plan& plan);

// Rungs of the tensor that has most.
size_t LongestLadder(const JobFacts& job);
// The highest that a tensor is on.
int TopRung(const Plan& plan);
// All tensors on `rung`; those that cannot use it stay on the lowest.
Plan AllOn(const JobFacts& job, int rung);

// By tensor and rung: whether a plan may use it. The lowest rung always.
using Allowed = std::vector<std::vector<bool>>;

// Every tensor on the highest rung up to `rung` that it may use.
Plan UpTo(const JobFacts& job, const Allowed& allowed, int rung);

// What steps of one plan took: the median, in microseconds.
struct MeasuredPlan {
  Plan plan;
  double busy_us = 0;  // an operation was under way
};

// Times per message and per byte of `model` with which two plans are under way as long as was
// measured, given what their codecs take. `light` sends fewer bytes a message, or they do not tell
// one from the other: then nearly all is taken for that of messages, as where it took longer than
// its codecs explain.
void FitWire(const JobFacts& job, const MeasuredPlan& heavy, const MeasuredPlan& light,
             ModelState* model);

// Likewise from one plan alone: a message takes as long as it did, but for what leaves bytes no
// tenth.
void FitBytes(const JobFacts& job, const MeasuredPlan& measured, ModelState* model);

// The model on a wire that takes `factor` of its time, for messages and for bytes.
ModelState ScaleWire(ModelState model, double factor);
// Likewise for bytes alone: of a faster link handling a message takes as long.
ModelState ScaleLink(ModelState model, double factor);
// The link's factor, 1 at most, with which `plan` is under way for `busy_factor` of the time it
// was.
double LinkFactor(const JobFacts& job, const ModelState& model, const Plan& plan,
                  double busy_factor);

// Of the plans that put all tensors on one rung, as far as they may use it, and then take down
// whatever saves time or costs hardly any, on a slower link too: the one with the shortest step.
// Single changes from the lowest rung up would find no way where a model has many tensors: none of
// them gains much alone. `scales`: by top rung, what the model's time of a plan is multiplied with;
// empty: 1.
Plan BestPlan(const JobFacts& job, const ModelState& state, const Allowed& allowed,
              std::span<const double> scales = {});

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_MODEL_H_
