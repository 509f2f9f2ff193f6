#include "runtime/controller/plan_log_file.h"

#include <utility>

#include "base/log.h"
#include "runtime/file_claim.h"

namespace gradwire {

PlanLogFile::~PlanLogFile() {
  if (!file_.is_open()) return;
  Put(EndLine(inputs_));
  has_decided_ = true;
  WriteOut();
}

void PlanLogFile::Begin(std::string_view path, uint64_t job) {
  if (!path_.empty()) return;
  path_ = ClaimFile(path, job);
  file_.open(path_);
  if (!file_.is_open())
    GW_LOG(kWarn, kPlan, "the plan log '{}' cannot be written; there is none", path_);
}

void PlanLogFile::Add(const JobFacts& job) {
  if (file_.is_open()) Put(JobLine(job));
}

void PlanLogFile::AddKnowledge(std::string_view knowledge) {
  if (file_.is_open()) Put(KnowledgeLine(knowledge));
}

void PlanLogFile::Add(const DecideInput& input) {
  if (!file_.is_open()) return;
  ++inputs_;
  Put(InputLine(input));
}

void PlanLogFile::Add(const Decision& decision) {
  if (!file_.is_open()) return;
  Put(DecisionLine(decision));
  has_decided_ = true;
}

void PlanLogFile::WriteOut() {
  if (!file_.is_open() || waiting_.empty()) return;
  file_ << std::exchange(waiting_, {});
  if (std::exchange(has_decided_, false)) file_.flush();
  EndIfFailed();
}

void PlanLogFile::Put(std::string line) {
  waiting_ += seal_.Sealed(std::move(line));
  waiting_ += '\n';
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
