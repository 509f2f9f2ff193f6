#include "runtime/controller/candidate_report.h"

#include <algorithm>
#include <set>

#include "compress/short_spec.h"
#include "runtime/controller/bounds.h"
#include "runtime/json_text.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

constexpr double kFloatsPerMib = 1024.0 * 1024 / sizeof(float);

CandidateReport Report(const JobFacts& job, const Memory& memory, size_t candidate) {
  const Candidate& about = job.candidates[candidate];
  CandidateReport report = {.spec = ShortSpec(about.spec),
                            .limit = about.feedback ? "lag" : "error",
                            .bound = about.bound};
  const bool is_known = candidate < memory.candidates.size();
  const double lost = is_known ? memory.candidates[candidate].relative_error : -1;
  for (size_t t = 0; t < job.tensors.size(); ++t) {
    const std::vector<JobRung>& ladder = job.tensors[t].ladder;
    const bool can = std::any_of(ladder.begin(), ladder.end(), [&](const JobRung& rung) {
      return rung.candidate == static_cast<int>(candidate);
    });
    if (!can) continue;
    ++report.tensors;
    if (lost < 0) continue;
    const double error = Distance(about, lost, {job.world_size, memory.alike[t]});
    report.error = std::min(report.error.value_or(error), error);
  }
  const double us = is_known ? memory.model.codec_us_per_elem[candidate] : -1;
  if (us >= 0) report.codec_us_per_mib = us * kFloatsPerMib;
  return report;
}

}  // namespace

std::vector<CandidateReport> ReportCandidates(const JobFacts& job, const Memory& memory) {
  // By specs of other bounds there are several of none.
  std::set<int> none;
  for (const JobTensor& tensor : job.tensors) none.insert(tensor.ladder[kNoneRung].candidate);
  std::vector<CandidateReport> reports;
  for (size_t c = 0; c < job.candidates.size(); ++c) {
    if (!none.contains(static_cast<int>(c))) reports.push_back(Report(job, memory, c));
  }
  return reports;
}

std::string NoteOf(std::span<const CandidateReport> reports, const Memory& memory) {
  const bool none_runs =
      !memory.comparison && std::all_of(memory.running.begin(), memory.running.end(),
                                        [](uint8_t rung) { return rung == kNoneRung; });
  const bool is_any_left = std::any_of(reports.begin(), reports.end(),
                                       [](const auto& report) { return !report.is_over_bound(); });
  if (reports.empty() || is_any_left || !none_runs) return {};
  return "every codec loses more than error= and lag= allow: tensors travel as none";
}

std::string Json(std::span<const CandidateReport> reports) {
  return JsonList(reports, [](const CandidateReport& report) {
    return JsonObject()
        .Add("spec", report.spec)
        .Add("tensors", report.tensors)
        .Add("error", report.error)
        .Add("limit", report.limit)
        .Add("bound", report.bound)
        .Add("codec_us_per_mib", report.codec_us_per_mib)
        .Text();
  });
}

}  // namespace gradwire
