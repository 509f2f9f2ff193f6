#include "runtime/controller/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace gradwire {
namespace {

constexpr std::array<std::pair<ErrorSum, std::string_view>, 3> kErrorSums = {{
    {ErrorSum::kOwned, "owned"},
    {ErrorSum::kOwn, "own"},
    {ErrorSum::kCommon, "common"},
}};

// A heavier rung that promises less is not worth its error.
constexpr double kLeastGain = 0.01;
// Of the time under way, the part that bytes take at least.
constexpr double kLeastByteShare = 0.1;
// Of what a function has at the ends of its range: finer than anybody measures.
constexpr double kRootError = 1e-9;
constexpr int kMaxRootSteps = 50;
// What lighter codecs may cost in all: less than anybody can measure.
constexpr double kFreeShare = 0.005;
// Of the wire's time per byte, what is measured is a median: on a wire so much slower a lighter
// codec must still be free, or steps in which others use the network would wait for it.
constexpr double kReserve = 1.3;

double WireUs(const JobFacts& job, const ModelState& state, int tensor, int rung) {
  const JobRung& sent = job.tensors[tensor].ladder[rung];
  return sent.messages * state.us_per_message + sent.wire_bytes * state.us_per_byte;
}

double Slices(const JobFacts& job, int tensor) {
  const int64_t slices = (job.tensors[tensor].elems + job.slice_elems - 1) / job.slice_elems;
  return static_cast<double>(std::max<int64_t>(slices, 1));
}

// The wire and the codec work at the same time but for one slice at either end.
double ServeUs(const JobFacts& job, const ModelState& state, int tensor, int rung) {
  const double wire = WireUs(job, state, tensor, rung);
  const double codec = CodecUs(job, state, tensor, rung);
  return std::max(wire, codec) + std::min(wire, codec) / Slices(job, tensor);
}

// Codecs and compute share processors: compute takes longer while codecs run.
double Stretch(const ModelState& state, double codec_us) {
  return state.compute_us > 0 ? 1 + state.slowdown * codec_us / state.compute_us : 1;
}

std::vector<int> InOrderOfSubmission(const ModelState& state) {
  std::vector<int> order(state.ready_us.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return state.ready_us[a] < state.ready_us[b]; });
  return order;
}

// Operations are served one after the other, each from when it is ready:
//   finish_b = max(finish_(b-1), ready_b) + serve_b
// What follows operation b ends at max(finish_b + rest, floor), whatever came before it: with rest
// and floor for every b, changing one operation costs no walk over all of them.
class Pipeline {
 public:
  Pipeline(const JobFacts& job, const ModelState& state, const Plan& plan)
      : job_(job), state_(state), order_(InOrderOfSubmission(state)) {
    const size_t n = order_.size();
    std::vector<double> serve(n);
    for (size_t b = 0; b < n; ++b) {
      serve[b] = ServeUs(job_, state_, order_[b], plan[order_[b]]);
      codec_us_ += CodecUs(job_, state_, order_[b], plan[order_[b]]);
    }
    const double stretch = Stretch(codec_us_);
    before_.assign(n + 1, 0);
    for (size_t b = 0; b < n; ++b)
      before_[b + 1] = std::max(before_[b], state_.ready_us[order_[b]] * stretch) + serve[b];
    rest_.assign(n + 1, 0);
    floor_.assign(n + 1, 0);
    for (size_t b = n; b-- > 0;) {
      rest_[b] = serve[b] + rest_[b + 1];
      floor_[b] = std::max(state_.ready_us[order_[b]] * stretch + rest_[b], floor_[b + 1]);
    }
  }

  double StepUs() const { return End(before_.back(), codec_us_); }

  // With the operation at `position` on another rung.
  double StepUsWith(size_t position, const Plan& plan, int rung) const {
    const int tensor = order_[position];
    const double codec = codec_us_ - CodecUs(job_, state_, tensor, plan[tensor]) +
                         CodecUs(job_, state_, tensor, rung);
    const double ready = state_.ready_us[tensor] * Stretch(codec_us_);
    const double finish = std::max(before_[position], ready) + ServeUs(job_, state_, tensor, rung);
    return End(std::max(finish + rest_[position + 1], floor_[position + 1]), codec);
  }

  // The operation at `position` goes to `rung` of the plan that is to have it. Those behind it see
  // that; those before it, and StepUs, do not.
  void Settle(size_t position, const Plan& before, int rung) {
    const int tensor = order_[position];
    codec_us_ +=
        CodecUs(job_, state_, tensor, rung) - CodecUs(job_, state_, tensor, before[tensor]);
    before_[position + 1] =
        std::max(before_[position], state_.ready_us[tensor] * Stretch(codec_us_)) +
        ServeUs(job_, state_, tensor, rung);
  }

  size_t size() const { return order_.size(); }
  int TensorAt(size_t position) const { return order_[position]; }

 private:
  double Stretch(double codec_us) const { return gradwire::Stretch(state_, codec_us); }

  double End(double finish, double codec_us) const {
    const double last_ready = order_.empty() ? 0 : state_.ready_us[order_.back()];
    const double after = std::max(0.0, state_.compute_us - last_ready);
    return std::max(last_ready * Stretch(codec_us), finish) + after;
  }

  const JobFacts& job_;
  const ModelState& state_;
  const std::vector<int> order_;
  double codec_us_ = 0;
  std::vector<double> before_;        // finish of the operations before each
  std::vector<double> rest_, floor_;  // of each and what follows it
};

// Where a growing `f` is 0, or the end of the range that is nearest. By false position, where an
// end that stays counts half the next time (the Illinois method).
template <typename F>
double Root(double low, double high, F f) {
  double f_low = f(low), f_high = f(high);
  if (f_low >= 0) return low;
  if (f_high <= 0) return high;
  const double near = kRootError * (f_high - f_low);
  double root = high;
  for (int i = 0; i < kMaxRootSteps; ++i) {
    root = low - f_low * (high - low) / (f_high - f_low);
    const double value = f(root);
    if (std::abs(value) <= near) break;
    if (value < 0) {
      low = root, f_low = value, f_high /= 2;
    } else {
      high = root, f_high = value, f_low /= 2;
    }
  }
  return root;
}

// Takes tensors down, those first that are submitted first and so wait least, as long as the step
// gets longer by no more than `share` of the shortest that there was.
void TakeDown(const JobFacts& job, const ModelState& state, const Allowed& allowed, double share,
              Plan* plan) {
  Pipeline pipeline(job, state, *plan);
  double least_us = pipeline.StepUs();
  for (size_t position = 0; position < pipeline.size(); ++position) {
    const int tensor = pipeline.TensorAt(position);
    int rung = 0;
    for (; rung < (*plan)[tensor]; ++rung) {
      if (!allowed[tensor][rung]) continue;
      const double step_us = pipeline.StepUsWith(position, *plan, rung);
      if (step_us > (1 + share) * least_us) continue;
      least_us = std::min(least_us, step_us);
      break;
    }
    // Also where it stays: what those before it have spent is told to those behind it.
    pipeline.Settle(position, *plan, rung);
    (*plan)[tensor] = static_cast<uint8_t>(rung);
  }
}

// On a slower link too. First what saves time: it is not there to be spent on what costs some.
void Lighten(const JobFacts& job, const ModelState& state, const Allowed& allowed, Plan* plan) {
  const ModelState slower = ScaleLink(state, kReserve);
  for (const double share : {0.0, kFreeShare}) TakeDown(job, slower, allowed, share, plan);
}

}  // namespace

std::string_view Name(ErrorSum errors) {
  return std::find_if(kErrorSums.begin(), kErrorSums.end(),
                      [&](const auto& entry) { return entry.first == errors; })
      ->second;
}

std::optional<ErrorSum> FindErrorSum(std::string_view name) {
  for (const auto& [errors, known] : kErrorSums) {
    if (known == name) return errors;
  }
  return std::nullopt;
}

double CodecUs(const JobFacts& job, const ModelState& state, int tensor, int rung) {
  const JobTensor& t = job.tensors[tensor];
  const int candidate = t.ladder[rung].candidate;
  if (candidate < 0) return 0;
  return std::max(0.0, state.codec_us_per_elem[candidate]) * static_cast<double>(t.elems);
}

double BusyUs(const JobFacts& job, const ModelState& state, const Plan& plan) {
  double sum = 0;
  for (size_t t = 0; t < plan.size(); ++t) sum += ServeUs(job, state, static_cast<int>(t), plan[t]);
  return sum;
}

double WireBytes(const JobFacts& job, const Plan& plan) {
  double sum = 0;
  for (size_t t = 0; t < plan.size(); ++t) sum += job.tensors[t].ladder[plan[t]].wire_bytes;
  return sum;
}

double Messages(const JobFacts& job, const Plan& plan) {
  double sum = 0;
  for (size_t t = 0; t < plan.size(); ++t) sum += job.tensors[t].ladder[plan[t]].messages;
  return sum;
}

double BytesPerMessage(const JobFacts& job, const Plan& plan) {
  return WireBytes(job, plan) / std::max(Messages(job, plan), 1.0);
}

double StepUs(const JobFacts& job, const ModelState& state, const Plan& plan) {
  return Pipeline(job, state, plan).StepUs();
}

double OverlappedStepUs(const JobFacts& job, const ModelState& state, const Plan& plan) {
  double codecs_us = 0;
  for (size_t t = 0; t < plan.size(); ++t)
    codecs_us += CodecUs(job, state, static_cast<int>(t), plan[t]);
  const double stretch = Stretch(state, codecs_us);
  double codec_end = 0, wire_end = 0, finish = 0, last_ready = 0;
  for (const int t : InOrderOfSubmission(state)) {
    const double ready = state.ready_us[t] * stretch;
    const double codec = CodecUs(job, state, t, plan[t]), wire = WireUs(job, state, t, plan[t]);
    const double slices = Slices(job, t);
    wire_end = std::max(wire_end, ready) + wire;
    finish = std::max(finish, wire_end + codec / slices);
    if (codec > 0) {  // others wait for no codec
      codec_end = std::max(codec_end, ready) + codec;
      finish = std::max(finish, codec_end + wire / slices);
    }
    last_ready = state.ready_us[t];
  }
  return std::max(last_ready * stretch, finish) + std::max(0.0, state.compute_us - last_ready);
}

size_t LongestLadder(const JobFacts& job) {
  size_t rungs = 0;
  for (const JobTensor& tensor : job.tensors) rungs = std::max(rungs, tensor.ladder.size());
  return rungs;
}

int TopRung(const Plan& plan) {
  return plan.empty() ? 0 : *std::max_element(plan.begin(), plan.end());
}

Plan AllOn(const JobFacts& job, int rung) {
  Plan plan(job.tensors.size(), 0);
  for (size_t t = 0; t < plan.size(); ++t) {
    const std::vector<JobRung>& ladder = job.tensors[t].ladder;
    const bool can = rung < static_cast<int>(ladder.size()) && ladder[rung].usable();
    if (can) plan[t] = static_cast<uint8_t>(rung);
  }
  return plan;
}

Plan UpTo(const JobFacts& job, const Allowed& allowed, int rung) {
  Plan plan(job.tensors.size(), 0);
  for (size_t t = 0; t < plan.size(); ++t) {
    const int rungs = std::min(rung + 1, static_cast<int>(allowed[t].size()));
    for (int r = 0; r < rungs; ++r) {
      if (allowed[t][r]) plan[t] = static_cast<uint8_t>(r);
    }
  }
  return plan;
}

// Both times under way grow with the time of a message; of those times that explain the heavy
// plan's the one is right that explains the light plan's too.
void FitWire(const JobFacts& job, const MeasuredPlan& heavy, const MeasuredPlan& light,
             ModelState* model) {
  const double most = heavy.busy_us / std::max(WireBytes(job, heavy.plan), 1.0);
  // Never nothing: windows only scale what is here.
  const double least = kLeastByteShare * most;
  const auto explain_heavy = [&](double us_per_byte) {
    model->us_per_byte = us_per_byte;
    model->us_per_message = Root(0, heavy.busy_us / std::max(Messages(job, heavy.plan), 1.0),
                                 [&](double us_per_message) {
                                   model->us_per_message = us_per_message;
                                   return BusyUs(job, *model, heavy.plan) - heavy.busy_us;
                                 });
  };
  const auto miss_of_light = [&](double us_per_byte) {
    explain_heavy(us_per_byte);
    return light.busy_us - BusyUs(job, *model, light.plan);
  };
  const bool differ = BytesPerMessage(job, light.plan) < BytesPerMessage(job, heavy.plan);
  explain_heavy(differ ? Root(least, most, miss_of_light) : least);
}

ModelState ScaleWire(ModelState model, double factor) {
  model.us_per_message *= factor;
  model.us_per_byte *= factor;
  return model;
}

ModelState ScaleLink(ModelState model, double factor) {
  model.us_per_byte *= factor;
  return model;
}

double LinkFactor(const JobFacts& job, const ModelState& model, const Plan& plan,
                  double busy_factor) {
  const double busy_us = busy_factor * BusyUs(job, model, plan);
  return Root(0, 1,
              [&](double factor) { return BusyUs(job, ScaleLink(model, factor), plan) - busy_us; });
}

void FitBytes(const JobFacts& job, const MeasuredPlan& measured, ModelState* model) {
  const auto fit = [&](double ModelState::*part, double least, double most) {
    const double root = Root(least, most, [&](double us) {
      model->*part = us;
      return BusyUs(job, *model, measured.plan) - measured.busy_us;
    });
    model->*part = root;
  };
  const double most = measured.busy_us / std::max(WireBytes(job, measured.plan), 1.0);
  fit(&ModelState::us_per_byte, kLeastByteShare * most, most);
  fit(&ModelState::us_per_message, 0, model->us_per_message);
}

Plan BestPlan(const JobFacts& job, const ModelState& state, const Allowed& allowed,
              std::span<const double> scales) {
  const auto scale_of = [&](const Plan& plan) {
    return scales.empty() ? 1.0 : scales[static_cast<size_t>(TopRung(plan))];
  };
  const int rungs = static_cast<int>(LongestLadder(job));
  Plan best(job.tensors.size(), 0);
  double best_us = scale_of(best) * StepUs(job, state, best);
  for (int rung = 1; rung < rungs; ++rung) {
    Plan plan = UpTo(job, allowed, rung);
    Lighten(job, state, allowed, &plan);
    const double plan_us = scale_of(plan) * StepUs(job, state, plan);
    if (plan_us >= (1 - kLeastGain) * best_us) continue;
    best_us = plan_us;
    best = std::move(plan);
  }
  return best;
}

}  // namespace gradwire
