#include "cli/plan/plan_command.h"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <utility>

#include "cli/arguments.h"
#include "cli/plan/plan_replay.h"
#include "cli/subcommand.h"
#include "cli/text_input.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Makes the controller's decisions again, from the log of a run with the spec `auto`, and "
    "fails\n"
    "where the log tells of others.\n\n"
    "example: GRADWIRE_COMPRESS=auto GRADWIRE_PLAN_LOG=plan.log gradwire run -n 4 -- ./train\n"
    "         gradwire plan --replay plan.log";

// "3 none, 2 qsgd(bits=4,feedback=on)".
std::string Summary(const JobFacts& job, const Plan& plan) {
  std::map<int, int> counts;
  for (size_t t = 0; t < plan.size(); ++t) ++counts[job.tensors[t].ladder[plan[t]].candidate];
  std::vector<std::string> parts;
  for (const auto& [candidate, count] : counts)
    parts.push_back(fmt::format("{} {}", count, job.candidates[candidate].spec));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Milliseconds(double us) { return us > 0 ? fmt::format("{:.2f}", us / kUsPerMs) : ""; }

std::string Text(const Replay& replay) {
  std::vector<std::vector<std::string>> rows = {
      {"#", "step", "tensors on", "compared with", "predicted_ms", "was_ms", "why"}};
  for (const ReplayedDecision& made : replay.decisions) {
    const JobFacts& job = replay.jobs[made.job];
    const Decision& d = made.decision;
    rows.push_back({"", std::to_string(made.step), Summary(job, d.a),
                    d.a != d.b ? Summary(job, d.b) : "", Milliseconds(d.predicted_us),
                    Milliseconds(d.was_us), d.why});
  }
  return fmt::format("# {} steps, {} decisions, all of them as logged\n{}", replay.inputs,
                     replay.decisions.size(), FormatColumns(rows));
}

std::string Json(const Replay& replay) {
  std::string lines;
  for (const ReplayedDecision& made : replay.decisions) lines += made.line + "\n";
  return lines;
}

}  // namespace

int PlanCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire plan");
  std::string log_path, json_path;
  line.Add("--replay", &log_path, "the log of rank 0's controller").Required().ExistingFile();
  line.AddJson("--json", &json_path);
  if (const auto code = line.Parse(args)) return *code;
  StatusOr<std::string> text = ReadTextFrom(log_path);
  if (!text.ok()) return ReportError("plan", text.status());
  std::istringstream log(std::move(*text));
  const StatusOr<Replay> replay = ReplayPlanLog(log);
  if (!replay.ok()) return ReportError("plan", replay.status());
  const Status written = WriteTextTo(json_path.empty() ? "-" : json_path,
                                     json_path.empty() ? Text(*replay) : Json(*replay));
  if (!written.ok()) return ReportError("plan", written);
  return replay->end.ok() ? kExitOk : ReportError("plan", replay->end);
}

}  // namespace gradwire
