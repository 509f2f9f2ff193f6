// A file of results: what a reader of its kind makes sections of, and what all kinds have.
#ifndef GRADWIRE_CLI_REPORT_RESULT_FILE_H_
#define GRADWIRE_CLI_REPORT_RESULT_FILE_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradwire {

struct ResultFile {
  std::string name;  // as much of its path as tells it from the others
  std::shared_ptr<const nlohmann::json> json;
};

// Where a measurement's ranks were: the rate of its test network, "one host" or "several hosts".
// Empty: the file does not tell, as those of earlier versions.
std::string PlaceOf(const nlohmann::json& run);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_RESULT_FILE_H_
