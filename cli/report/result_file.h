// A file of results: what a reader of its kind makes sections of.
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

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_RESULT_FILE_H_
