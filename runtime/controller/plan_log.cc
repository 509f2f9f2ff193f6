#include "runtime/controller/plan_log.h"

#include <fmt/format.h>

#include "base/crc.h"
#include "runtime/hex_text.h"
#include "runtime/json_text.h"

namespace gradwire {
namespace {

std::string RungText(const JobRung& rung) {
  return fmt::format("[{}, {}, {}]", rung.candidate, rung.wire_bytes, rung.messages);
}

std::string Text(const Plan& plan) {
  return JsonList(plan, [](uint8_t rung) { return std::to_string(rung); });
}

std::string CandidateText(const Candidate& candidate) {
  return JsonObject()
      .Add("spec", candidate.spec)
      .Add("feedback", candidate.feedback)
      .Add("bound", candidate.bound)
      .Add("errors", Name(candidate.errors))
      .Text();
}

std::string TensorText(const JobTensor& tensor) {
  return JsonObject()
      .Add("id", tensor.id)
      .Add("name", tensor.name)
      .Add("elems", tensor.elems)
      .AddJson("ladder", JsonList(tensor.ladder, RungText))
      .Text();
}

std::string ObservationText(const TensorObservation& t) {
  return fmt::format("[{}, {}, {}, {}, {}, {}]", t.tensor, t.ready_us, t.codec_us, t.energy,
                     t.error, t.sum_energy);
}

std::string ProbeText(const ProbeResult& p) {
  return fmt::format("[{}, {}, {}, {}]", p.candidate, p.elems, p.codec_us_per_elem,
                     p.relative_error);
}

// Of one member, which says what the line is of.
std::string Line(std::string_view kind, const JsonObject& about) {
  return JsonObject().AddJson(kind, about.Text()).Text();
}

// What takes the place of a line's last brace.
std::string SealText(uint32_t checksum) { return fmt::format(", \"crc\": \"{:08x}\"}}", checksum); }

}  // namespace

std::string JobLine(const JobFacts& job) {
  return Line("job", JsonObject()
                         .Add("format", kPlanLogFormat)
                         .Add("world_size", job.world_size)
                         .Add("slice_elems", job.slice_elems)
                         .AddJson("candidates", JsonList(job.candidates, CandidateText))
                         .AddJson("tensors", JsonList(job.tensors, TensorText)));
}

std::string KnowledgeLine(std::string_view knowledge) {
  return JsonObject().Add("knowledge", ToHex(knowledge)).Text();
}

std::string InputLine(const DecideInput& input) {
  const StepInput& step = input.step;
  return Line("input", JsonObject()
                           .Add("turn", input.turn)
                           .Add("step", step.step)
                           .Add("step_turn", step.turn)
                           .Add("step_us", step.step_us)
                           .Add("compute_us", step.compute_us)
                           .Add("busy_us", step.busy_us)
                           .Add("unplanned", input.unplanned)
                           .AddJson("tensors", JsonList(step.tensors, ObservationText))
                           .AddJson("probes", JsonList(input.probes, ProbeText)));
}

std::string DecisionLine(const Decision& decision) {
  return Line("decision", JsonObject()
                              .Add("from_turn", decision.from_turn)
                              .AddJson("a", Text(decision.a))
                              .AddJson("b", Text(decision.b))
                              .Add("in_a_row", decision.in_a_row)
                              .Add("why", decision.why)
                              .Add("predicted_us", decision.predicted_us)
                              .Add("was_us", decision.was_us));
}

std::string EndLine(int64_t inputs) { return JsonObject().Add("end", inputs).Text(); }

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
