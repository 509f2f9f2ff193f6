#include "runtime/controller/plan_log_file.h"

#include <utility>

#include "base/log.h"
#include "runtime/file_claim.h"

namespace gradwire {

PlanLogFile::~PlanLogFile() {
  if (!file_.is_open()) return;
  Write(EndLine(inputs_));
  file_.flush();
  EndIfFailed();
}

void PlanLogFile::Begin(std::string_view path, uint64_t job) {
  if (!path_.empty()) return;
  path_ = ClaimFile(path, job);
  file_.open(path_);
  if (!file_.is_open())
    GW_LOG(kWarn, kPlan, "the plan log '{}' cannot be written; there is none", path_);
}

void PlanLogFile::Add(const JobFacts& job) {
  if (file_.is_open()) Write(JobLine(job));
}

void PlanLogFile::AddKnowledge(std::string_view knowledge) {
  if (file_.is_open()) Write(KnowledgeLine(knowledge));
}

void PlanLogFile::Add(const DecideInput& input) {
  if (!file_.is_open()) return;
  ++inputs_;
  Write(InputLine(input));
}

void PlanLogFile::Add(const Decision& decision) {
  if (!file_.is_open()) return;
  Write(DecisionLine(decision));
  file_.flush();
  EndIfFailed();
}

void PlanLogFile::Write(std::string line) {
  file_ << seal_.Sealed(std::move(line)) << '\n';
  EndIfFailed();
}

void PlanLogFile::EndIfFailed() {
  if (!file_.is_open() || file_.good()) return;
  GW_LOG(
      kWarn, kPlan,
      "the plan log '{}' cannot be written any further and cannot be replayed: is its disk full?",
      path_);
  file_.close();
}

}  // namespace gradwire
