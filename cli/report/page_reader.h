// Pages that other programs describe:
//   {"page": 1, "title": T, "subtitle": T, "sections": [{"heading": T, "plots": [PLOT],
//    "tables": [{"columns": [T], "rows": [[T]]}], "notes": [T]}]}
// PLOT: {"heading": T, "x": AXIS, "y": AXIS, "target": {"value": N, "text": T},
//        "series": [{"name": T, "points": [[x, y]], "colour": I, "dashed": B}]}
// AXIS: {"label": T, "logarithmic": B, "low": N, "high": N}
// Missing: headings, subtitle and lists are empty, axes linear and as long as the data. Points with
// null are left out. Colours are those of the palette, from 0; behind its end they come again.
#ifndef GRADWIRE_CLI_REPORT_PAGE_READER_H_
#define GRADWIRE_CLI_REPORT_PAGE_READER_H_

#include <nlohmann/json_fwd.hpp>

#include "cli/report/report_page.h"

namespace gradwire {

// Throws a std::exception where `json` is something else.
ReportPage ReadReportPage(const nlohmann::json& json);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_PAGE_READER_H_
