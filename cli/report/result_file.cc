#include "cli/report/result_file.h"

#include <nlohmann/json.hpp>

namespace gradwire {

std::string PlaceOf(const nlohmann::json& run) {
  const nlohmann::json& netlab = run.at("netlab");
  if (!netlab.is_null()) return netlab.get<std::string>();
  const auto one_host = run.find("one_host");
  if (one_host == run.end() || one_host->is_null()) return "";
  return one_host->get<bool>() ? "one host" : "several hosts";
}

}  // namespace gradwire
