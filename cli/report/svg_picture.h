// A report's plots as one SVG picture, for pages that take pictures: a README, an issue.
#ifndef GRADWIRE_CLI_REPORT_SVG_PICTURE_H_
#define GRADWIRE_CLI_REPORT_SVG_PICTURE_H_

#include <string>

#include "cli/report/report_page.h"

namespace gradwire {

// Section by section: heading, legend, plots, two in a row. Without tables and notes. Needs nothing
// else.
std::string SvgPicture(const ReportPage& page);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_SVG_PICTURE_H_
