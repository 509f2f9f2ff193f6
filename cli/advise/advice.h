// Whether compression makes a training step shorter: from measurements to a plan, without training.
#ifndef GRADWIRE_CLI_ADVISE_ADVICE_H_
#define GRADWIRE_CLI_ADVISE_ADVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/models/model_shapes.h"
#include "collectives/schedule.h"
#include "runtime/controller/model.h"
#include "runtime/controller/probe.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {

// Every tensor of `model`, in its order, with the ladder of `automatic`.
JobFacts JobOf(const ModelShapes& model, std::shared_ptr<const AutoSpec> automatic,
               const AlgorithmRule& algorithms, int64_t slice_elems);

// By the slowest rank.
struct Measurements {
  double none_ms = 0, bf16_ms = 0;                 // a step that computes nothing
  std::vector<std::optional<ProbeReport>> codecs;  // by candidate; nothing: it could not be tried
};

// Steps with synthetic gradients.
struct TriedPlan {
  Plan plan;
  double step_ms = 0;
};

struct PlanAdvice {
  std::string name;
  double predicted_ms = 0, codec_ms = 0, wire_bytes = 0;  // of a rank's step
  std::optional<double> tried_ms;                         // likewise, of a plan that was tried
  // Of a codec that has been tried.
  std::optional<double> distance, bound;

  double step_ms() const { return tried_ms.value_or(predicted_ms); }
};

struct TensorAdvice {
  std::string name;
  int64_t elems = 0;
  std::string choice;     // a spec
  double without_ms = 0;  // a step predicted as advised, but with this tensor as it is
  double gain_ms = 0;     // of it, what the choice saves
  double saved = 0;       // part of the bytes on the wire
};

struct Advice {
  double compute_ms = 0;
  Measurements measured;
  double us_per_message = 0, us_per_byte = 0;  // of the wire
  size_t tried_plans = 0;
  bool compress = false;
  std::vector<PlanAdvice> plans;  // everything uncompressed, then each codec alone
  PlanAdvice advised;
  std::vector<TensorAdvice> tensors;
};

// Here and below `job` is JobOf(model, ...), and the computing is an accelerator's: codecs do not
// make it longer.

// Of a step with everything uncompressed: too little is waited for that a codec could be worth it.
bool Hides(double step_ms, double compute_ms);
// What to try beside that before advice is given, where it does not hide: of the plans within
// bounds those that are predicted to be the fastest, and the one of bf16; none that is hopeless.
// Equal on all ranks if the arguments are.
std::vector<Plan> PlansToTry(const JobFacts& job, const ModelShapes& model, double compute_ms,
                             const Measurements& measured);
// By tensor.
std::vector<std::string> SpecsOf(const JobFacts& job, const Plan& plan);

// `tried`: first everything uncompressed. Advised is the fastest, if it is worth it.
Advice MakeAdvice(const JobFacts& job, const ModelShapes& model, double compute_ms,
                  const Measurements& measured, const std::vector<TriedPlan>& tried);

// One sentence, which begins with "compress: " or "do not compress: "; where nothing is computed
// the first is said under that condition.
std::string Summary(const Advice& advice);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_ADVICE_H_
