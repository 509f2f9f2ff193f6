// What `gradwire perf --json` measured, as sections of a report.
#ifndef GRADWIRE_CLI_REPORT_PERF_SECTIONS_H_
#define GRADWIRE_CLI_REPORT_PERF_SECTIONS_H_

#include <span>
#include <vector>

#include "cli/report/report_page.h"
#include "cli/report/result_file.h"

namespace gradwire {

bool IsPerfResult(const nlohmann::json& json);

// One for each collective and datatype, with all files in it: time and effective bus bandwidth, of
// the data before compression, against size.
// Lines are named by what differs between them. Throws what nlohmann throws.
std::vector<ReportSection> PerfSections(std::span<const ResultFile> files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_PERF_SECTIONS_H_
