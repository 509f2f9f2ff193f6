// What `gradwire train --json` measured, as sections of a report.
#ifndef GRADWIRE_CLI_REPORT_TRAIN_SECTIONS_H_
#define GRADWIRE_CLI_REPORT_TRAIN_SECTIONS_H_

#include <span>
#include <vector>

#include "cli/report/report_page.h"
#include "cli/report/result_file.h"

namespace gradwire {

bool IsTrainResult(const nlohmann::json& json);

// One for each file: the times of the steps as they followed each other, the settings' medians, and
// what the controller changed. Throws what nlohmann throws.
std::vector<ReportSection> TrainSections(std::span<const ResultFile> files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_TRAIN_SECTIONS_H_
