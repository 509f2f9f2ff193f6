// Text in HTML and SVG.
#ifndef GRADWIRE_CLI_REPORT_MARKUP_H_
#define GRADWIRE_CLI_REPORT_MARKUP_H_

#include <string>
#include <string_view>

namespace gradwire {

// As text or between double quotes.
std::string EscapeMarkup(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_MARKUP_H_
