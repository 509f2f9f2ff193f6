// Where results go: a file or standard output.
#ifndef GRADWIRE_CLI_TEXT_OUTPUT_H_
#define GRADWIRE_CLI_TEXT_OUTPUT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

// "-" is standard output. A file is replaced by a whole one, or stays as it is. gwSystemError: it
// cannot be written.
Status WriteTextTo(const std::string& path, std::string_view text);

// Before long work: gwInvalidArgument where two of the `paths` are the same output, gwSystemError
// where a file cannot be written. Empty ones are none. Files stay as they are, and none is left.
Status CheckOutputs(std::span<const std::string> paths);

// gwInvalidArgument where an output would replace what it is made of.
Status CheckReplacesNone(const std::string& output, std::span<const std::string> inputs);

// To standard output at once: who reads sees rows as they finish.
void PrintLine(std::string_view line);

// What the process is to return: kExitFailed in place of kExitOk, with a line on standard error, if
// anything could not be written to standard output.
int CheckedExitCode(int exit_code);

// Lines of columns as wide as their widest cell, two blanks apart, no blanks at the end. Rows may
// have fewer cells than others.
std::string FormatColumns(const std::vector<std::vector<std::string>>& rows);

// A cell of a CSV table: specs hold commas and quotes.
std::string CsvText(std::string_view text);

// "gradwire NAME: error" on standard error; the exit code that goes with it.
int ReportError(std::string_view subcommand, const Status& status);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TEXT_OUTPUT_H_
