#include "runtime/controller/plan_log.h"

#include <fmt/format.h>

#include <vector>

#include "base/crc.h"
#include "runtime/hex_text.h"
#include "runtime/json_text.h"

namespace gradwire {
namespace {

template <typename Items, typename Format>
std::string List(const Items& items, Format format) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(format(item));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string RungText(const JobRung& rung) {
  return fmt::format("[{}, {}, {}]", rung.candidate, rung.wire_bytes, rung.messages);
}

// What takes the place of a line's last brace.
std::string SealText(uint32_t checksum) { return fmt::format(", \"crc\": \"{:08x}\"}}", checksum); }

std::string Text(const Plan& plan) {
  return List(plan, [](uint8_t rung) { return std::to_string(rung); });
}

}  // namespace

std::string JobLine(const JobFacts& job) {
  return fmt::format(
      "{{\"job\": {{\"format\": {}, \"world_size\": {}, \"slice_elems\": {}, \"candidates\": {}, "
      "\"tensors\": {}}}}}",
      kPlanLogFormat, job.world_size, job.slice_elems,
      List(job.candidates,
           [](const Candidate& c) {
             return fmt::format(
                 "{{\"spec\": {}, \"feedback\": {}, \"bound\": {}, \"errors\": \"{}\"}}",
                 JsonText(c.spec), c.feedback, c.bound, Name(c.errors));
           }),
      List(job.tensors, [](const JobTensor& t) {
        return fmt::format("{{\"id\": {}, \"name\": {}, \"elems\": {}, \"ladder\": {}}}", t.id,
                           JsonText(t.name), t.elems, List(t.ladder, RungText));
      }));
}

std::string KnowledgeLine(std::string_view knowledge) {
  return fmt::format("{{\"knowledge\": \"{}\"}}", ToHex(knowledge));
}

std::string InputLine(const DecideInput& input) {
  const StepInput& step = input.step;
  return fmt::format(
      "{{\"input\": {{\"turn\": {}, \"step\": {}, \"step_turn\": {}, \"step_us\": {}, "
      "\"compute_us\": {}, \"busy_us\": {}, \"unplanned\": {}, \"tensors\": {}, \"probes\": {}}}}}",
      input.turn, step.step, step.turn, step.step_us, step.compute_us, step.busy_us,
      input.unplanned,
      List(step.tensors,
           [](const TensorObservation& t) {
             return fmt::format("[{}, {}, {}, {}, {}, {}]", t.tensor, t.ready_us, t.codec_us,
                                t.energy, t.error, t.sum_energy);
           }),
      List(input.probes, [](const ProbeResult& p) {
        return fmt::format("[{}, {}, {}, {}]", p.candidate, p.elems, p.codec_us_per_elem,
                           p.relative_error);
      }));
}

std::string DecisionLine(const Decision& d) {
  return fmt::format(
      "{{\"decision\": {{\"from_turn\": {}, \"a\": {}, \"b\": {}, \"why\": {}, "
      "\"predicted_us\": {}, \"was_us\": {}}}}}",
      d.from_turn, Text(d.a), Text(d.b), JsonText(d.why), d.predicted_us, d.was_us);
}

std::string EndLine(int64_t inputs) { return fmt::format("{{\"end\": {}}}", inputs); }

std::string PlanLogSeal::Sealed(std::string line) {
  checksum_ = Crc32c(line.data(), std::ssize(line), checksum_);
  line.pop_back();
  return line + SealText(checksum_);
}

std::optional<std::string> PlanLogSeal::Opened(const std::string& sealed) {
  const size_t seal_bytes = SealText(0).size();
  if (sealed.size() < seal_bytes) return std::nullopt;
  std::string line = sealed.substr(0, sealed.size() - seal_bytes) + "}";
  if (Sealed(line) != sealed) return std::nullopt;
  return line;
}

}  // namespace gradwire
