#include "collectives/schedule_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json_value.h"

namespace gradwire {
namespace {

using Json = JsonValue;

Json StepToJson(const Schedule& schedule, const Step& step) {
  Json json = {{"kind", std::string(Name(step.kind))}, {"round", step.round}};
  const std::pair<const char*, const Region*> regions[] = {
      {"src", &step.src}, {"arg", &step.arg}, {"dst", &step.dst}};
  for (const auto& [name, region] : regions) {
    if (region->count > 0) json[name] = {region->buffer, region->first, region->count};
  }
  if (step.peer >= 0) {
    json["peer"] = step.peer;
    json["message"] = step.message;
  }
  const std::span<const int32_t> deps = schedule.DepsOf(step);
  json["deps"] = std::vector<int32_t>(deps.begin(), deps.end());
  return json;
}

}  // namespace

Json ScheduleToJson(const Schedule& schedule) {
  Json json = {{"collective", std::string(Name(schedule.collective))},
               {"rank", schedule.rank},
               {"world_size", schedule.world_size},
               {"root", schedule.root},
               {"logical_shards", schedule.logical_shards},
               {"hash", fmt::format("{:016x}", schedule.hash)}};
  json["buffers"] = Json::array();
  for (const BufferDecl& decl : schedule.buffers) {
    json["buffers"].push_back({{"role", std::string(Name(decl.role))}, {"shards", decl.shard_ids}});
  }
  json["steps"] = Json::array();
  for (const Step& step : schedule.steps) json["steps"].push_back(StepToJson(schedule, step));
  return json;
}

Json MessagesToJson(std::span<const Schedule> schedules, int64_t slice, const ShardBytes& bytes) {
  struct Message {
    const Schedule* schedule;
    const Step* step;
  };
  std::vector<Message> messages;
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::kSend) messages.push_back({&schedule, &step});
    }
  }
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return a.step->round < b.step->round;
  });
  Json json = Json::array();
  for (const auto& [schedule, step] : messages) {
    json.push_back({{"src", schedule->rank},
                    {"dst", step->peer},
                    {"slice", slice},
                    {"message", step->message},
                    {"round", step->round},
                    {"bytes", RegionBytes(*schedule, step->src, bytes)}});
  }
  return json;
}

}  // namespace gradwire
