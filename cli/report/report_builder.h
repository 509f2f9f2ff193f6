// From files of results to a page: each kind of file has a reader, which is a row in a table.
#ifndef GRADWIRE_CLI_REPORT_REPORT_BUILDER_H_
#define GRADWIRE_CLI_REPORT_REPORT_BUILDER_H_

#include <span>
#include <string>

#include "base/status.h"
#include "cli/report/report_page.h"

namespace gradwire {

// Files of one kind come together, in the order of the table. The title is that of the only file if
// it is a page of its own. gwInvalidArgument: a file cannot be read, is no JSON, of no known kind,
// or damaged.
StatusOr<ReportPage> BuildReport(std::span<const std::string> paths);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_BUILDER_H_
