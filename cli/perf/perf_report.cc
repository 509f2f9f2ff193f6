#include "cli/perf/perf_report.h"

#include <fmt/format.h>

#include "base/json_value.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {

void PerfReport::Print(const std::string& line) const {
  if (options_.json_path == "-" || options_.csv_path == "-") return;
  PrintLine(line);
}

void PerfReport::PrintHeader(const RunFacts& facts) {
  for (const std::string& line : HeaderLines(facts, options_.command_line)) Print(line);
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

void PerfReport::PrintFooter(const RunFacts& facts) {
  Print(fmt::format("# Out of bounds values : {} {}", wrong(), wrong() == 0 ? "OK" : "FAILED"));
  Print(fmt::format("# Avg bus bandwidth    : {:g}", AverageBusBandwidth()));
  for (const std::string& line : FooterLines(facts)) Print(line);
}

std::string PerfReport::Json(const RunFacts& facts) const {
  JsonValue json = FactsJson(facts, options_.command_line);
  json["iterations"] = options_.iterations;
  json["warm_ups"] = options_.warm_ups;
  json["operations"] = options_.operations;
  json["processor_time"] = options_.processor_time;
  json["results"] = JsonValue::array();
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

Status PerfReport::WriteFiles(const RunFacts& facts) const {
  if (!options_.json_path.empty()) {
    GW_RETURN_IF_ERROR(WriteTextTo(options_.json_path, Json(facts)));
  }
  return options_.csv_path.empty() ? Status::Ok() : WriteTextTo(options_.csv_path, Csv());
}

}  // namespace gradwire
