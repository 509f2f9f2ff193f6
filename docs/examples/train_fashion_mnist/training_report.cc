#include "docs/examples/train_fashion_mnist/training_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace example {
namespace {

using nlohmann::json;

json PointsJson(const TrainingResult& result) {
  json points = json::array();
  for (const EvalPoint& point : result.points) {
    points.push_back({{"step", point.step},
                      {"epoch", point.epoch},
                      {"seconds", point.seconds},
                      {"sent_bytes", point.sent_bytes},
                      {"loss", point.loss ? json(*point.loss) : json()},
                      {"accuracy", point.accuracy}});
  }
  return points;
}

// Of the first point at or above the target; null: it was not reached.
json SecondsToTarget(const TrainingResult& result, double target) {
  for (const EvalPoint& point : result.points) {
    if (point.accuracy >= target) return point.seconds;
  }
  return nullptr;
}

json CountersJson(Communicator* comm, const ReportInputs& inputs) {
  const std::vector<double> transport = comm->AllGather(inputs.result.sent.transport);
  const std::vector<double> interface = comm->AllGather(inputs.result.sent.interface);
  json counters = json::array();
  for (int rank = 0; rank < comm->ranks(); ++rank) {
    counters.push_back(
        {{"rank", rank},
         {"transport_bytes", transport[rank]},
         {"interface_bytes", inputs.has_interface ? json(interface[rank]) : json()}});
  }
  return counters;
}

json OptionsJson(const TrainerOptions& options) {
  return {{"spec", options.spec},
          {"batch", options.batch},
          {"lr", options.lr},
          {"momentum", options.momentum},
          {"seed", options.seed},
          {"target", options.target},
          {"eval_every", options.eval_every},
          {"submit", options.submit == SubmitTime::kAsap ? "asap" : "end"}};
}

}  // namespace

std::string DigestText(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, digest);
  return text;
}

TrainingReport MakeReport(Communicator* comm, const ReportInputs& inputs) {
  const TrainingResult& result = inputs.result;
  const std::vector<uint64_t> digests = comm->AllGather(inputs.digest);
  json text = OptionsJson(inputs.options);
  text["ranks"] = comm->ranks();
  text["network"] = result.network;
  text["netlab"] = inputs.netlab.empty() ? json() : json(inputs.netlab);
  text["points"] = PointsJson(result);
  text["steps"] = result.steps;
  text["to_target_s"] = SecondsToTarget(result, inputs.options.target);
  text["final_accuracy"] = result.points.back().accuracy;
  text["counters"] = CountersJson(comm, inputs);
  text["digests"] = json::array();
  for (uint64_t digest : digests) text["digests"].push_back(DigestText(digest));
  text["stats"] = json::parse(comm->Stats());
  text["ledger"] = json::parse(comm->Ledger());
  // Null before a step has ended: of a single one the library has not seen the end.
  const json& steps = text["ledger"]["steps"];
  for (const char* key : {"step_ms", "compute_ms", "exposed_comm_ms"})
    text[key] = steps.is_null() ? json() : steps.at(key);
  return {.json = text.dump(1) + "\n",
          .digests_equal = std::all_of(digests.begin(), digests.end(),
                                       [&](uint64_t d) { return d == digests[0]; })};
}

}  // namespace example
