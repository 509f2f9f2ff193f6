// What votes, results and saved states bring to controllers, on any bytes: [what, text].
// Observations that can be read go through Decide, which must live with whatever ranks say, and
// with whatever it is resumed from.

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/controller/decide.h"
#include "runtime/controller/knowledge.h"
#include "runtime/controller/observation.h"
#include "runtime/controller/plan.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

enum What : uint8_t { kOrder, kObservation, kKnowledge, kWhats };

JobFacts Job() {
  return {.world_size = 2,
          .slice_elems = 64,
          .candidates = {{"none", false, 0.1}, {"bf16", false, 0.1}, {"qsgd", true, 1}},
          .tensors = {{.id = 3, .name = "a", .elems = 100, .ladder = {{0, 400}, {1, 200}, {2, 50}}},
                      {.id = 9, .name = "b", .elems = 10, .ladder = {{0, 40}, {1, 20}, {}}}}};
}

StepObservation Observation() {
  return {.step = 4,
          .turn = 5,
          .step_us = 1000,
          .blocked_us = 300,
          .busy_us = 600,
          .tensors = {{3, 100, 5, 8, 0.1f}, {9, 200, 1, 2, 0.1f}}};
}

// A run in which every step was like this one.
Memory CheckDecisions(const StepObservation& observation, Memory memory) {
  const JobFacts job = Job();
  StepInput step = *Combine({&observation, 1});
  for (uint16_t turn = 0; turn < 100; ++turn) {
    step.turn = turn;
    const DecideInput input = {.turn = static_cast<uint16_t>(turn + 1),
                               .step = step,
                               .probes = {{1, 65536, 0.001, 1e-6}, {2, 65536, 0.001, 0.01}}};
    const std::optional<Decision> decision = Decide(job, input, &memory);
    if (!decision) continue;
    for (const Plan& plan : {decision->a, decision->b}) {
      FUZZ_CHECK(plan.size() == job.tensors.size());
      for (size_t t = 0; t < plan.size(); ++t)
        FUZZ_CHECK(job.tensors[t].ladder.at(plan[t]).usable());
    }
  }
  return memory;
}

Input SeedOf(What what, const std::string& text) {
  Input input(1 + text.size());
  input[0] = what;
  std::memcpy(input.data() + 1, text.data(), text.size());
  return input;
}

}  // namespace

std::vector<Input> Seeds() {
  const PlanOrder order = {.from_turn = 7, .entries = {{3, 1, 2}, {9, 0, 1}}};
  const Memory memory = CheckDecisions(Observation(), Memory());
  return {SeedOf(kOrder, EncodeOrder(order)),
          SeedOf(kObservation, EncodeObservation(Observation())),
          SeedOf(kKnowledge, EncodeKnowledge(Job(), memory)),
          SeedOf(kOrder, ""),
          SeedOf(kObservation, ""),
          SeedOf(kKnowledge, "")};
}

}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % fuzz::kWhats == fuzz::kOrder) {
    const StatusOr<PlanOrder> order = DecodeOrder(text);
    FUZZ_CHECK(order.ok() ? EncodeOrder(*order) == text : order.status().code() == gwDataCorrupt);
    return 0;
  }
  if (data[0] % fuzz::kWhats == fuzz::kKnowledge) {
    const StatusOr<Memory> memory = DecodeKnowledge(fuzz::Job(), text);
    if (memory.ok()) {
      FUZZ_CHECK(EncodeKnowledge(fuzz::Job(), *memory) == text);
      (void)fuzz::CheckDecisions(fuzz::Observation(), *memory);
    }
    return 0;
  }
  const StatusOr<StepObservation> observation = DecodeObservation(text);
  if (!observation.ok()) {
    FUZZ_CHECK(observation.status().code() == gwDataCorrupt);
    return 0;
  }
  FUZZ_CHECK(EncodeObservation(*observation) == text);
  (void)fuzz::CheckDecisions(*observation, Memory());
  return 0;
}
