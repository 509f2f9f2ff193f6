#include "cli/train/train_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_value.h"
#include "cli/measure/quantile.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

using Json = JsonValue;

// Of the counted steps of some blocks, ascending.
template <typename Of>
std::vector<double> SortedTimes(std::span<const BlockResult> blocks, Of of) {
  std::vector<double> times;
  for (const BlockResult& block : blocks) {
    for (const StepTime& step : block.counted()) times.push_back(of(step));
  }
  std::sort(times.begin(), times.end());
  return times;
}

double StepMs(const StepTime& step) { return step.step_ms; }

std::vector<double> MedianOfEach(const std::vector<BlockResult>& blocks) {
  std::vector<double> medians;
  for (const BlockResult& block : blocks) {
    medians.push_back(Quantile(SortedTimes({&block, 1}, StepMs), 0.5));
  }
  return medians;
}

double MeanOf(const std::vector<BlockResult>& blocks, double BlockResult::*member) {
  double sum = 0;
  for (const BlockResult& block : blocks) sum += block.*member;
  return sum / static_cast<double>(blocks.size());
}

std::string IntervalText(const PairedRatio& ratio) {
  return ratio.interval ? fmt::format("{:.3f}..{:.3f}", ratio.interval->low, ratio.interval->high)
                        : "-";
}

Json StepsJson(const std::vector<StepTime>& steps) {
  Json json = {
      {"begin_s", Json::array()}, {"step_ms", Json::array()}, {"compute_ms", Json::array()}};
  for (const StepTime& step : steps) {
    json["begin_s"].push_back(step.begin_s);
    json["step_ms"].push_back(step.step_ms);
    json["compute_ms"].push_back(step.compute_ms);
  }
  return json;
}

Json BlockJson(const BlockResult& block) {
  Json json = StepsJson(block.steps);
  json["round"] = block.block.round;
  json["first_step"] = block.first_step;
  json["wire_bytes"] = block.wire_bytes;
  json["relerr"] = block.relerr;
  json["codecs"] = block.codecs;
  return json;
}

}  // namespace

TrainRow MakeRow(const std::string& spec, std::vector<BlockResult> blocks,
                 const std::vector<BlockResult>* base, uint64_t seed) {
  const std::vector<double> times = SortedTimes(blocks, StepMs);
  const auto compute = [](const StepTime& step) { return step.compute_ms; };
  const auto exposed = [](const StepTime& step) { return step.exposed_ms(); };
  TrainRow row = {.spec = spec,
                  .step_ms = Quantile(times, 0.5),
                  .step_p10_ms = Quantile(times, 0.1),
                  .step_p90_ms = Quantile(times, 0.9),
                  .compute_ms = Quantile(SortedTimes(blocks, compute), 0.5),
                  .exposed_ms = Quantile(SortedTimes(blocks, exposed), 0.5),
                  .wire_bytes = MeanOf(blocks, &BlockResult::wire_bytes),
                  .relerr = MeanOf(blocks, &BlockResult::relerr)};
  if (base != nullptr) row.ratio = RatioOf(MedianOfEach(blocks), MedianOfEach(*base), seed);
  row.blocks = std::move(blocks);
  return row;
}

std::string TrainTableHeader(size_t spec_width) {
  return fmt::format("# {:<{}}  {:>9}  {:>9}  {:>9}  {:>10}  {:>10}  {:>9}  {:>8}  {:>6}  {}",
                     "spec", spec_width, "step_ms", "p10", "p90", "compute_ms", "exposed_ms",
                     "wire_MB", "relerr", "ratio", "95% interval");
}

std::string TrainTableRow(const TrainRow& row, size_t spec_width) {
  return fmt::format(
      "  {:<{}}  {:>9.3f}  {:>9.3f}  {:>9.3f}  {:>10.3f}  {:>10.3f}  {:>9.3f}  {:>8.2e}  {:>6.3f}  "
      "{}",
      row.spec, spec_width, row.step_ms, row.step_p10_ms, row.step_p90_ms, row.compute_ms,
      row.exposed_ms, 1e-6 * row.wire_bytes, row.relerr, row.ratio.value, IntervalText(row.ratio));
}

std::string TrainCsvHeader() {
  return "spec,steps,step_ms,step_p10_ms,step_p90_ms,compute_ms,exposed_ms,wire_bytes,relerr,"
         "ratio,ratio_low,ratio_high";
}

std::string TrainCsvLine(const TrainRow& row) {
  size_t steps = 0;
  for (const BlockResult& block : row.blocks) steps += block.counted().size();
  const auto end = [&](double Interval::*which) {
    return row.ratio.interval ? fmt::format("{:.6f}", *row.ratio.interval.*which) : "";
  };
  return fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.0f},{:.6e},{:.6f},{},{}",
                     CsvText(row.spec), steps, row.step_ms, row.step_p10_ms, row.step_p90_ms,
                     row.compute_ms, row.exposed_ms, row.wire_bytes, row.relerr, row.ratio.value,
                     end(&Interval::low), end(&Interval::high));
}

Json TrainRowJson(const TrainRow& row) {
  Json json = {{"spec", row.spec},
               {"step_ms", row.step_ms},
               {"step_p10_ms", row.step_p10_ms},
               {"step_p90_ms", row.step_p90_ms},
               {"compute_ms", row.compute_ms},
               {"exposed_ms", row.exposed_ms},
               {"wire_bytes", row.wire_bytes},
               {"relerr", row.relerr},
               {"ratio", row.ratio.value},
               {"ratio_low", nullptr},
               {"ratio_high", nullptr}};
  if (row.ratio.interval) {
    json["ratio_low"] = row.ratio.interval->low;
    json["ratio_high"] = row.ratio.interval->high;
  }
  json["warm_up"] = StepsJson(row.warm_up);
  for (const BlockResult& block : row.blocks) json["blocks"].push_back(BlockJson(block));
  json["plan_changes"] = Json::array();
  for (const PlanChange& plan : row.plan_changes)
    json["plan_changes"].push_back(PlanChangeJson(plan));
  return json;
}

}  // namespace gradwire
