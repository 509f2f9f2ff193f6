#include "runtime/start/load_settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "base/failpoint.h"
#include "base/log.h"
#include "collectives/schedule.h"
#include "runtime/spec/auto_spec.h"
#include "runtime/spec/spec_error.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "a=b; c=d" as texts by name.
StatusOr<SettingTexts> ParsePairs(const std::string& text) {
  SettingTexts pairs;
  std::string rest = text;
  std::replace(rest.begin(), rest.end(), ';', '\n');
  std::istringstream lines(rest);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    const auto sign = line.find('=');
    if (sign == std::string::npos || sign <= first) {
      return Status(gwInvalidArgument,
                    fmt::format("'{}' gives no setting a value", line.substr(first)),
                    "Write name=value pairs separated by ';'");
    }
    const auto name_end = line.find_last_not_of(" \t", sign - 1);
    const auto value = line.find_first_not_of(" \t", sign + 1);
    const auto value_end = line.find_last_not_of(" \t");
    pairs[line.substr(first, name_end - first + 1)] =
        value == std::string::npos ? "" : line.substr(value, value_end - value + 1);
  }
  return pairs;
}

// gradwire.toml, if there is one.
Status ReadConfigFile(SettingsInput* input) {
  const std::string path = ConfigPath(*input);
  if (!path.empty()) {
    input->toml_path = path;
    input->toml_text = ReadFile(path);
    if (!input->toml_text.empty()) return Status();
    return Status(gwInvalidArgument, "the file cannot be read or is empty").WithSetting("config");
  }
  if (access(input->toml_path.c_str(), F_OK) != 0) return Status();
  if (access(input->toml_path.c_str(), R_OK) != 0) {
    return Status(gwInvalidArgument,
                  fmt::format("{} of the working directory cannot be read", input->toml_path),
                  "Let this user read it, or name another by GRADWIRE_CONFIG");
  }
  input->toml_text = ReadFile(input->toml_path);
  return Status();
}

// The log, with its warnings, and where the process is to die. What stands in files and in the
// environment holds from the first communicator on; a later one changes the process only by what
// its own text names.
Status ApplyToProcess(const Settings& settings) {
  static std::mutex mu;
  static auto* const log = new LogConfig;
  static bool applied = false;
  const std::lock_guard lock(mu);
  const auto decides = [&](SettingKey<> key) {
    return !applied || settings.source(key) == SettingSource::kApi;
  };
  LogConfig wished = *log;
  if (decides("debug")) {
    const StatusOr<LogLevel> level = ParseLogLevel(settings.Text("debug"));
    if (!level.ok()) return level.status();
    wished.level = *level;
  }
  if (decides("debug_subsys")) {
    const StatusOr<uint32_t> subsystems = ParseLogSubsystems(settings.Text("debug_subsys"));
    if (!subsystems.ok()) return Status(subsystems.status()).WithSetting("debug_subsys");
    wished.subsystems = *subsystems;
  }
  if (decides("debug_file")) wished.file = settings.Text("debug_file");
  GW_RETURN_IF_ERROR(ConfigureLog(wished).WithSetting("debug_file"));
  *log = std::move(wished);
  if (decides("failpoint")) {
    GW_RETURN_IF_ERROR(ArmFailpoint(settings.Text("failpoint")).WithSetting("failpoint"));
  }
  applied = true;
  // What one communicator has said the next need not say again.
  static auto* const said = new std::set<std::string>;
  for (const std::string& warning : settings.warnings()) {
    if (said->insert(warning).second) GW_LOG(kWarn, kEnv, "{}", warning);
  }
  return Status();
}

// A misspelt codec must fail at the start, not at the first tensor.
Status CheckSpecs(const Settings& settings) {
  const std::string& codec = settings.Text("compress");
  GW_RETURN_IF_ERROR(WithAutoAmongCodecs(CheckSpec(codec), codec).WithSetting("compress"));
  const std::string& transport = settings.Text("transport");
  if (transport == "auto") return Status();
  return Status(RowOfSpec(transport).status()).WithSetting("transport");
}

}  // namespace

Environment ProcessEnvironment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t sign = text.find('=');
    if (sign != std::string::npos) all.emplace(text.substr(0, sign), text.substr(sign + 1));
  }
  return all;
}

StatusOr<Settings> LoadSettings(const std::string& api, const Environment& environment,
                                const std::string& api_origin) {
  StatusOr<SettingTexts> pairs = ParsePairs(api);
  if (!pairs.ok()) return pairs.status();
  SettingsInput input = {
      .api = std::move(*pairs), .api_origin = api_origin, .environment = environment};
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.collective == Collective::kAllReduce && !row.encoded)
      input.names["algorithm"].push_back(row.name);
  }
  const Status read = ReadConfigFile(&input);
  StatusOr<Settings> settings = Settings::Load(input);
  if (!settings.ok()) return settings;
  GW_RETURN_IF_ERROR(settings->Explain(read));
  GW_RETURN_IF_ERROR(settings->Explain(CheckSpecs(*settings)));
  GW_RETURN_IF_ERROR(settings->Explain(ApplyToProcess(*settings)));
  return settings;
}

}  // namespace gradwire
