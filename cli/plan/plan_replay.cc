#include "cli/plan/plan_replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/controller/knowledge.h"
#include "runtime/controller/plan_log.h"
#include "runtime/hex_text.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

// The readers throw what nlohmann throws; ReplayPlanLog turns it into a Status.

ErrorSum ReadErrors(const std::string& name) {
  const std::optional<ErrorSum> errors = FindErrorSum(name);
  if (!errors) throw std::out_of_range("errors of an unknown kind");
  return *errors;
}

JobFacts ReadJob(const Json& json) {
  if (json.value("format", 1) != kPlanLogFormat)
    throw std::out_of_range("another version of gradwire wrote it");
  JobFacts job = {.world_size = json.at("world_size"), .slice_elems = json.at("slice_elems")};
  if (job.world_size < 1 || job.slice_elems < 1) throw std::out_of_range("a job of no size");
  for (const Json& c : json.at("candidates"))
    job.candidates.push_back(
        {c.at("spec"), c.at("feedback"), c.at("bound"), ReadErrors(c.at("errors"))});
  for (const Json& t : json.at("tensors")) {
    JobTensor tensor = {.id = t.at("id"), .name = t.at("name"), .elems = t.at("elems")};
    for (const Json& rung : t.at("ladder")) {
      const int candidate = rung.at(0);
      if (candidate >= static_cast<int>(job.candidates.size()))
        throw std::out_of_range("a rung of no candidate");
      tensor.ladder.push_back({candidate, rung.at(1), rung.at(2)});
      if (tensor.ladder.back().wire_bytes < 0 || tensor.ladder.back().messages < 0)
        throw std::out_of_range("a rung that sends less than nothing");
    }
    if (tensor.ladder.empty() || !tensor.ladder[0].usable() || tensor.ladder.size() > kMaxRungs)
      throw std::out_of_range("a tensor without a ladder");
    job.tensors.push_back(std::move(tensor));
  }
  return job;
}

DecideInput ReadInput(const Json& json, const JobFacts& job) {
  DecideInput input = {.turn = json.at("turn"),
                       .step = {.step = json.at("step"),
                                .turn = json.at("step_turn"),
                                .step_us = json.at("step_us"),
                                .compute_us = json.at("compute_us"),
                                .busy_us = json.at("busy_us")},
                       .unplanned = json.at("unplanned")};
  for (const Json& t : json.at("tensors"))
    input.step.tensors.push_back({t.at(0), t.at(1), t.at(2), t.at(3), t.at(4), t.at(5)});
  for (const Json& p : json.at("probes")) {
    input.probes.push_back({p.at(0), p.at(1), p.at(2), p.at(3)});
    const ProbeResult& probe = input.probes.back();
    if (probe.candidate < 0 || probe.candidate >= static_cast<int>(job.candidates.size()))
      throw std::out_of_range("a probe of no candidate");
    if (probe.elems < 1) throw std::out_of_range("a probe of no elements");
  }
  return input;
}

std::string BytesOf(const std::string& digits) {
  std::optional<std::string> bytes = FromHex(digits);
  if (!bytes) throw std::out_of_range("no hexadecimal number");
  return std::move(*bytes);
}

class Replayer {
 public:
  StatusOr<Replay> Run(std::istream& log) {
    for (std::string line; std::getline(log, line);) {
      ++number_;
      try {
        GW_RETURN_IF_ERROR(Take(line));
      } catch (const std::exception& error) {
        return Bad(error.what());
      }
    }
    if (pending_) return Bad("the log ends before the decision that follows from its last input");
    if (replay_.jobs.empty()) return Bad("the log holds no job");
    if (!ended_) replay_.end = Bad("the log is cut off behind it");
    return std::move(replay_);
  }

 private:
  Status Bad(const std::string& what) const {
    return Status(gwDataCorrupt, fmt::format("line {} of the plan log: {}", number_, what),
                  "Give a log as GRADWIRE_PLAN_LOG wrote it");
  }

  Status Take(const std::string& sealed) {
    if (ended_) return Bad("it stands behind the end");
    const std::optional<std::string> line = seal_.Opened(sealed);
    if (!line) return Bad("it or one before it was altered, added, cut or left out");
    const Json json = Json::parse(*line);
    if (json.contains("decision")) return TakeDecision(*line, sealed);
    if (pending_) return Bad("a decision is missing before it");
    if (json.contains("end")) {
      ended_ = true;
      return json.at("end") == replay_.inputs ? Status() : Bad("there were other inputs");
    }
    if (json.contains("job")) {
      replay_.jobs.push_back(ReadJob(json.at("job")));
      memory_ = {};
      return Status();
    }
    if (replay_.jobs.empty()) return Bad("an input before any job");
    if (json.contains("knowledge")) return TakeKnowledge(BytesOf(json.at("knowledge")));
    const DecideInput input = ReadInput(json.at("input"), replay_.jobs.back());
    step_ = input.step.step;
    pending_ = Decide(replay_.jobs.back(), input, &memory_);
    ++replay_.inputs;
    return Status();
  }

  Status TakeKnowledge(const std::string& bytes) {
    StatusOr<Memory> memory = DecodeKnowledge(replay_.jobs.back(), bytes);
    if (!memory.ok()) return Bad(memory.status().detail().message);
    memory_ = std::move(*memory);
    return Status();
  }

  Status TakeDecision(const std::string& line, const std::string& sealed) {
    if (!pending_) return Bad("a decision that does not follow from its inputs");
    const std::string made = DecisionLine(*pending_);
    if (made != line) return Bad("another decision follows from its inputs: " + made);
    replay_.decisions.push_back(
        {step_, replay_.jobs.size() - 1, *std::exchange(pending_, std::nullopt), sealed});
    return Status();
  }

  Replay replay_;
  PlanLogSeal seal_;
  bool ended_ = false;
  Memory memory_;
  std::optional<Decision> pending_;
  uint64_t step_ = 0;
  int64_t number_ = 0;
};

}  // namespace

StatusOr<Replay> ReplayPlanLog(std::istream& log) { return Replayer().Run(log); }

}  // namespace gradwire
