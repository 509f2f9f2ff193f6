#include "cli/train/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_value.h"
#include "cli/models/model_options.h"
#include "cli/text_output.h"
#include "cli/train/gradient_times.h"

namespace gradwire {
namespace {

std::string StepsLine(const TrainOptions& options) {
  const auto [least, most] =
      std::minmax_element(options.round_steps.begin(), options.round_steps.end());
  const std::string steps =
      *least == *most ? fmt::to_string(*most) : fmt::format("{} to {}", *least, *most);
  return fmt::format(
      "# compute {:g} ms on the {}; blocks of each spec: {} of {} steps; warm-up {}, seed {}",
      options.compute_ms, ComputeName(options.compute), options.round_steps.size(), steps,
      options.warm_ups, options.seed);
}

}  // namespace

TrainReport::TrainReport(const TrainOptions& options)
    : options_(options), warm_ups_(options.specs.size()), blocks_(options.specs.size()) {
  for (const std::string& spec : options.specs) spec_width_ = std::max(spec_width_, spec.size());
}

void TrainReport::Print(std::string_view line) const {
  if (options_.json_path == "-" || options_.csv_path == "-") return;
  PrintLine(line);
}

void TrainReport::PrintHeader(const RunFacts& facts) {
  for (const std::string& line : HeaderLines(facts, options_.command_line)) Print(line);
  Print(ModelLine(options_.model, options_.scale));
  Print(StepsLine(options_));
  Print(TrainTableHeader(spec_width_));
}

void TrainReport::AddWarmUp(size_t spec, std::vector<StepTime> steps) {
  warm_ups_[spec] = std::move(steps);
}

bool TrainReport::IsComplete(size_t spec) const {
  return blocks_[spec].size() == options_.round_steps.size();
}

void TrainReport::Add(BlockResult block) {
  blocks_[static_cast<size_t>(block.block.spec)].push_back(std::move(block));
  // Every row is compared with the first spec.
  while (rows_.size() < blocks_.size() && IsComplete(0) && IsComplete(rows_.size())) {
    const size_t spec = rows_.size();
    rows_.push_back(MakeRow(options_.specs[spec], blocks_[spec], spec > 0 ? &blocks_[0] : nullptr,
                            options_.seed));
    rows_.back().warm_up = std::move(warm_ups_[spec]);
    Print(TrainTableRow(rows_.back(), spec_width_));
  }
}

void TrainReport::PrintFooter(const RunFacts& facts) const {
  for (const std::string& line : FooterLines(facts)) Print(line);
}

std::string TrainReport::Json(const RunFacts& facts) const {
  JsonValue json = FactsJson(facts, options_.command_line);
  json["model"] = ModelJson(options_.model, options_.scale);
  json["compute"] = ComputeName(options_.compute);
  json["nominal_compute_ms"] = options_.compute_ms;
  json["forward_share"] = kForwardShare;
  json["warm_ups"] = options_.warm_ups;
  json["auto_warm_ups"] = options_.auto_warm_ups;
  json["round_steps"] = options_.round_steps;
  json["seed"] = options_.seed;
  if (!options_.timeline.empty()) json["timeline"] = options_.timeline;
  json["results"] = JsonValue::array();
  for (const TrainRow& row : rows_) json["results"].push_back(TrainRowJson(row));
  return json.dump(1) + "\n";
}

std::string TrainReport::Csv() const {
  std::string text = TrainCsvHeader() + "\n";
  for (const TrainRow& row : rows_) text += TrainCsvLine(row) + "\n";
  return text;
}

Status TrainReport::WriteFiles(const RunFacts& facts) const {
  if (!options_.json_path.empty()) {
    GW_RETURN_IF_ERROR(WriteTextTo(options_.json_path, Json(facts)));
  }
  return options_.csv_path.empty() ? Status::Ok() : WriteTextTo(options_.csv_path, Csv());
}

}  // namespace gradwire
