// The options of a measurement that become settings of its communicator.
#ifndef GRADWIRE_CLI_MEASURE_LIBRARY_OPTIONS_H_
#define GRADWIRE_CLI_MEASURE_LIBRARY_OPTIONS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"

namespace gradwire {

// As on the command line.
struct LibraryOptions {
  std::string algorithm, transport, record_path;
  int slice_elems = 0;
  std::vector<std::string> settings;  // "name=value"
};

// --algorithm, --transport, --slice, --set and --record; `options` outlive the parsing.
void AddLibraryOptions(CommandLine* line, LibraryOptions* options);

// As gwConfig_t takes them; "" where nothing is to be set.
std::string SettingsText(const LibraryOptions& options);

// The command line as results keep it: "gradwire perf -b 1M". Of secrets among the settings it says
// that they are set.
std::string CommandLineText(std::string_view program, std::span<const std::string> args);

// The file of --record in which rank 0 keeps what it sends; empty: there is none.
std::string RecordOfRankZero(const LibraryOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_LIBRARY_OPTIONS_H_
