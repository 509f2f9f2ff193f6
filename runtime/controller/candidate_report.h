// What rank 0's controller knows of each codec that it may choose, for the ledger: why one of them
// is not chosen.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_CANDIDATE_REPORT_H_
#define GRADWIRE_RUNTIME_CONTROLLER_CANDIDATE_REPORT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/controller/decide.h"

namespace gradwire {

// Of a candidate that loses something.
struct CandidateReport {
  std::string spec;
  int tensors = 0;         // that it can encode
  std::string_view limit;  // the option that its bound is of, "error" or "lag"
  double bound = 0;
  // Once it has been tried on a piece of a gradient: what the bound is held against, Distance, on
  // the tensor where that is least.
  std::optional<double> error;
  std::optional<double> codec_us_per_mib;  // of float32, encoding and decoding; once known
  bool is_over_bound() const { return error && *error > bound; }
};

std::vector<CandidateReport> ReportCandidates(const JobFacts& job, const Memory& memory);

// Not empty where nothing is left to choose: none runs, and each has been tried and loses more than
// it may.
std::string NoteOf(std::span<const CandidateReport> reports, const Memory& memory);

std::string Json(std::span<const CandidateReport> reports);  // an array

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_CANDIDATE_REPORT_H_
