#include "cli/info/info_command.h"

#include <fmt/format.h>

#include <optional>

#include "base/cuda/cuda_probe.h"
#include "base/json_value.h"
#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/info/build_facts.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "collectives/schedule.h"
#include "compress/registry.h"
#include "runtime/start/load_settings.h"
#include "transports/bootstrap/rendezvous.h"

namespace gradwire {
namespace {

using Json = JsonValue;
using Rows = std::vector<std::vector<std::string>>;

constexpr char kDescription[] =
    "Prints the version, what this build has and what of it works on this machine.\n\n"
    "example: gradwire info -c        every setting with its value and where that came from";

std::string CudaText() {
  const int built = CudaBuildVersion();
  if (built == 0) return "not in this build";
  const int driver = CudaDriverVersion();
  return fmt::format("built with {}, {}, {} devices", CudaVersionText(built),
                     driver > 0 ? "driver for " + CudaVersionText(driver) : "no driver",
                     CudaDeviceCount());
}

std::string TransportText(const Settings& settings) {
  Rows rows = {{"#", "transport", "usable", "what it is, or why not"}};
  for (const TransportFact& fact : ProbeTransports(settings)) {
    const bool ok = fact.usable.ok();
    rows.push_back({"", fact.name, ok ? "yes" : "no", ok ? fact.doc : fact.usable.ToString()});
  }
  return FormatColumns(rows);
}

std::string CodecText() {
  Rows rows = {{"#", "codec", "options", "error law"}};
  for (const CodecRow& row : Codecs()) {
    rows.push_back({"", row.name, fmt::format("{}", fmt::join(row.keys, ",")), row.doc});
  }
  return FormatColumns(rows);
}

std::string AlgorithmText() {
  Rows rows = {{"#", "collective", "algorithm", "carries", "how"}};
  for (const AlgorithmRow& row : Algorithms()) {
    rows.push_back({"", std::string(Name(row.collective)), row.name,
                    row.encoded ? "payloads" : "arrays", row.doc});
  }
  return FormatColumns(rows);
}

std::string_view SourceName(SettingSource source) {
  switch (source) {
    case SettingSource::kDefault: return "default";
    case SettingSource::kFile: return "file";
    case SettingSource::kEnvironment: return "environment";
    case SettingSource::kApi: return "api";
  }
  return "unknown";
}

Json SettingsJson(const Settings& settings) {
  Json json = Json::array();
  for (size_t i = 0; i < kSettings.size(); ++i) {
    json.push_back({{"name", std::string(kSettings[i].name)},
                    {"value", settings.ShownText(i)},
                    {"source", std::string(SourceName(settings.values()[i].source))},
                    {"origin", settings.values()[i].origin},
                    {"default", std::string(kSettings[i].default_text)},
                    {"doc", std::string(kSettings[i].doc)}});
  }
  return json;
}

Json RegistriesJson(const Settings& settings) {
  Json transports = Json::array(), codecs = Json::array(), algorithms = Json::array();
  for (const TransportFact& fact : ProbeTransports(settings)) {
    Json transport = {{"name", fact.name}, {"usable", fact.usable.ok()}, {"doc", fact.doc}};
    if (!fact.usable.ok()) transport["why_not"] = fact.usable.ToString();
    transports.push_back(transport);
  }
  for (const CodecRow& row : Codecs()) {
    codecs.push_back({{"name", row.name}, {"options", row.keys}, {"doc", row.doc}});
  }
  for (const AlgorithmRow& row : Algorithms()) {
    algorithms.push_back({{"collective", std::string(Name(row.collective))},
                          {"name", row.name},
                          {"encoded", row.encoded},
                          {"doc", row.doc}});
  }
  return {{"transports", transports}, {"codecs", codecs}, {"algorithms", algorithms}};
}

std::string InfoText(const Settings& settings) {
  return fmt::format("gradwire {}\ncuda: {}\n\n{}\n{}\n{}", VersionText(GW_VERSION_CODE),
                     CudaText(), TransportText(settings), CodecText(), AlgorithmText());
}

std::string InfoJson(const Settings& settings) {
  Json json = {{"schema_version", 1},
               {"version", VersionText(GW_VERSION_CODE)},
               {"cuda",
                {{"built_with", CudaBuildVersion()},
                 {"driver", CudaDriverVersion()},
                 {"devices", CudaDeviceCount()}}}};
  json.update(RegistriesJson(settings));
  json["settings"] = SettingsJson(settings);
  return json.dump(1) + "\n";
}

}  // namespace

int InfoCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire info");
  bool show_settings = false;
  std::string json_path;
  line.AddFlag("-c,--settings", &show_settings, "every setting: value, source and meaning");
  line.AddJson("--json", &json_path);
  if (const auto code = line.Parse(args)) return *code;
  const StatusOr<Settings> settings = LoadSettings("", ProcessEnvironment());
  if (!settings.ok() && (show_settings || !json_path.empty())) {
    return ReportError("info", settings.status());
  }
  const std::string text = !json_path.empty() ? InfoJson(*settings)
                           : show_settings    ? settings->ToTable()
                                              : InfoText(settings.ok() ? *settings : Settings());
  const Status written = WriteTextTo(json_path.empty() ? "-" : json_path, text);
  return written.ok() ? kExitOk : ReportError("info", written);
}

}  // namespace gradwire
