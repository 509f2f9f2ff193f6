#include "runtime/controller/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "compress/short_spec.h"
#include "runtime/json_text.h"

namespace gradwire {
namespace {

constexpr size_t kKeptChanges = 256;
constexpr size_t kNamedTensors = 3;

// ".012"
std::string ErrorText(double error) {
  const std::string text = fmt::format("{:.3f}", error);
  return text.starts_with("0.") ? text.substr(1) : text;
}

// "layer2.weight bf16 -> qsgd(bits=8)": tensors that change alike stand together.
std::string Describe(const JobFacts& job, const Plan& before, const Plan& after) {
  struct Moved {
    std::string change;
    std::vector<std::string> tensors;
  };
  std::vector<std::string> specs(job.candidates.size());
  const auto spec_of = [&](const JobTensor& tensor, uint8_t rung) -> const std::string& {
    const auto candidate = static_cast<size_t>(tensor.ladder[rung].candidate);
    if (specs[candidate].empty()) specs[candidate] = ShortSpec(job.candidates[candidate].spec);
    return specs[candidate];
  };
  std::vector<Moved> moves;
  for (size_t t = 0; t < after.size(); ++t) {
    if (before[t] == after[t]) continue;
    const JobTensor& tensor = job.tensors[t];
    const std::string change =
        fmt::format("{} -> {}", spec_of(tensor, before[t]), spec_of(tensor, after[t]));
    auto it = std::find_if(moves.begin(), moves.end(),
                           [&](const Moved& moved) { return moved.change == change; });
    if (it == moves.end()) it = moves.insert(moves.end(), {.change = change});
    it->tensors.push_back(tensor.name);
  }
  std::vector<std::string> parts;
  for (const Moved& moved : moves) {
    parts.push_back(moved.tensors.size() <= kNamedTensors
                        ? fmt::format("{} {}", fmt::join(moved.tensors, ", "), moved.change)
                        : fmt::format("{} tensors {}", moved.tensors.size(), moved.change));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

Changes::~Changes() { TellLast(); }

void Changes::Add(const JobFacts& job, uint64_t step, const Decision& decision,
                  const Plan& before) {
  TellLast();
  const bool compares = decision.a != decision.b;
  const std::string moved = Describe(job, before, decision.a);
  std::vector<std::string> texts;
  if (!moved.empty() || !compares) texts.push_back(moved.empty() ? "no change" : moved);
  if (compares) texts.push_back("on trial: " + Describe(job, decision.a, decision.b));
  changes_.push_back({.step = step,
                      .text = fmt::format("{}", fmt::join(texts, "; ")),
                      .why = decision.why,
                      .predicted_us = decision.predicted_us,
                      .was_us = decision.was_us});
  if (changes_.size() > kKeptChanges) changes_.pop_front();
  // Nothing is to be measured but what the next decision tells.
  if (compares || moved.empty()) TellLast();
}

void Changes::NoteOutcome(const Outcome& outcome) {
  if (changes_.empty()) return;
  changes_.back().outcome = outcome;
  TellLast();
}

void Changes::TellLast() {
  if (changes_.empty()) return;
  Change& change = changes_.back();
  if (std::exchange(change.is_told, true)) return;
  const std::string numbers = change.Numbers();
  GW_LOG(kInfo, kPlan, "step {}: {}{}{} ({})", change.step, change.text,
         numbers.empty() ? "" : ": ", numbers, change.why);
}

// "predicted 61.2 ms, was 74.9 ms, measured 62.0 ms, error .012 <= .100", as far as known.
std::string Changes::Change::Numbers() const {
  std::vector<std::string> parts;
  const auto add_ms = [&](const char* what, double us) {
    if (us > 0) parts.push_back(fmt::format("{} {:.1f} ms", what, us / kUsPerMs));
  };
  add_ms("predicted", predicted_us);
  add_ms("was", was_us);
  if (outcome) add_ms("measured", outcome->measured_us);
  if (outcome && outcome->distance) {
    const bool within = *outcome->distance <= outcome->bound;
    parts.push_back(fmt::format("error {} {} {}", ErrorText(*outcome->distance),
                                within ? "<=" : ">", ErrorText(outcome->bound)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Changes::Change::Json() const {
  const bool compressed = outcome && outcome->distance;
  return JsonObject()
      .Add("step", step)
      .Add("change", text)
      .Add("why", why)
      .Add("predicted_ms", predicted_us / kUsPerMs)
      .Add("was_ms", was_us / kUsPerMs)
      .Add("measured_ms", outcome ? std::optional(outcome->measured_us / kUsPerMs) : std::nullopt)
      .Add("error", compressed ? outcome->distance : std::nullopt)
      .Add("bound", compressed ? std::optional(outcome->bound) : std::nullopt)
      .Text();
}

std::string Changes::Json() const {
  return JsonList(
      changes_, [](const Change& change) { return change.Json(); }, ",\n ");
}

}  // namespace gradwire
