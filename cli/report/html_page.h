// A report as one HTML file that needs nothing else, for light and dark screens; well-formed XML
// too.
#ifndef GRADWIRE_CLI_REPORT_HTML_PAGE_H_
#define GRADWIRE_CLI_REPORT_HTML_PAGE_H_

#include <string>

#include "cli/report/report_page.h"

namespace gradwire {

std::string HtmlPage(const ReportPage& page);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_HTML_PAGE_H_
