#include "cli/perf/perf_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/perf/machine_state.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

Json OptionalNumber(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

void PerfReport::Print(const std::string& line) const {
  if (options_.json_path == "-" || options_.csv_path == "-") return;
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);  // rows are read as they finish
}

void PerfReport::PrintHeader(const PerfRunFacts& facts) {
  Print(fmt::format("# gradwire {}.{}.{} on {}, {} ranks{}", GW_MAJOR, GW_MINOR, GW_PATCH,
                    facts.host, facts.ranks,
                    facts.netlab.empty() ? "" : ", test network at " + facts.netlab));
  Print(fmt::format("# {}", options_.command_line));
  if (facts.probed) {
    Print("# machine state before : " + MachineStateText(facts.ping_pong_before_us));
  }
}

void PerfReport::Add(const PerfRow& row) {
  const bool first = rows_.empty();
  if (first || rows_.back().perf_case.spec != row.perf_case.spec ||
      rows_.back().algorithm != row.algorithm) {
    Print(fmt::format("#\n# {} by {} over {}, codec {}", Name(row.perf_case.collective),
                      row.algorithm, row.transport, row.perf_case.spec));
  }
  if (first) Print(TableHeader());
  rows_.push_back(row);
  Print(TableRow(row));
}

int64_t PerfReport::wrong() const {
  int64_t sum = 0;
  for (const PerfRow& row : rows_) sum += row.wrong();
  return sum;
}

int PerfReport::exit_code() const { return wrong() == 0 ? kExitOk : kExitFailed; }

double PerfReport::AverageBusBandwidth() const {
  double sum = 0;
  int count = 0;
  for (const PerfRow& row : rows_) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (timing) sum += row.BusBandwidth(*timing), ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

void PerfReport::PrintFooter(const PerfRunFacts& facts) {
  Print(fmt::format("# Out of bounds values : {} {}", wrong(), wrong() == 0 ? "OK" : "FAILED"));
  Print(fmt::format("# Avg bus bandwidth    : {:g}", AverageBusBandwidth()));
  if (facts.probed) {
    Print("# machine state after  : " + MachineStateText(facts.ping_pong_after_us));
  }
}

std::string PerfReport::Json(const PerfRunFacts& facts) const {
  nlohmann::ordered_json json = {
      {"schema_version", 1},
      {"version", fmt::format("{}.{}.{}", GW_MAJOR, GW_MINOR, GW_PATCH)},
      {"start_time", facts.start_unix_s},
      {"end_time", facts.end_unix_s},
      {"args", options_.command_line},
      {"env", facts.environment},
      {"hostname", facts.host},
      {"ranks", facts.ranks},
      {"netlab", facts.netlab.empty() ? nlohmann::ordered_json(nullptr)
                                      : nlohmann::ordered_json(facts.netlab)},
      {"iterations", options_.iterations},
      {"warm_ups", options_.warm_ups},
      {"ping_pong_us",
       {OptionalNumber(facts.ping_pong_before_us), OptionalNumber(facts.ping_pong_after_us)}}};
  json["results"] = nlohmann::ordered_json::array();
  for (const PerfRow& row : rows_) json["results"].push_back(RowJson(row));
  json["out_of_bounds"] = wrong();
  json["avg_busbw"] = AverageBusBandwidth();
  return json.dump(1) + "\n";
}

std::string PerfReport::Csv() const {
  std::string text = CsvHeader() + "\n";
  for (const PerfRow& row : rows_) text += CsvLines(row);
  return text;
}

Status PerfReport::WriteFiles(const PerfRunFacts& facts) const {
  if (!options_.json_path.empty()) {
    GW_RETURN_IF_ERROR(WriteTextTo(options_.json_path, Json(facts)));
  }
  return options_.csv_path.empty() ? Status::Ok() : WriteTextTo(options_.csv_path, Csv());
}

}  // namespace gradwire
