// `gradwire report`: plots and tables of results as one page.
#ifndef GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
#define GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 for files that cannot be read or written, 2 for those that hold something else.
int ReportCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
