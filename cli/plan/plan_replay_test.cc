#include "cli/plan/plan_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "runtime/controller/knowledge.h"
#include "runtime/controller/plan_log.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

JobFacts Job() {
  return {.world_size = 2,
          .slice_elems = 1024,
          .candidates = {{"none", false, 0.1}, {"bf16", false, 0.1}},
          .tensors = {{.id = 18446744073709551557u,
                       .name = "layer \"1\"",
                       .elems = 4096,
                       .ladder = {{0, 16384}, {1, 8192}, {}}}}};
}

// Enough steps for the warm-up's decisions, with times that do not end after a few digits.
std::vector<std::string> LinesFrom(Memory& memory) {
  std::vector<std::string> lines;
  for (uint16_t i = 0; i < 60; ++i) {
    const DecideInput input = {
        .turn = static_cast<uint16_t>(i + 1),
        .step = {.step = i,
                 .turn = i,
                 .step_us = 1000.0 / 3 + i,
                 .compute_us = 200.0 / 7,
                 .busy_us = 100.0 / 9,
                 .tensors = {{18446744073709551557u, 1.0f / 3, 0.1f, 1e30f, 1e-30f}}},
        .probes = {{.candidate = 1,
                    .elems = 65536,
                    .codec_us_per_elem = 1e-4 / 3,
                    .relative_error = 1e-6 / 7}}};
    lines.push_back(InputLine(input));
    if (const auto decision = Decide(Job(), input, &memory))
      lines.push_back(DecisionLine(*decision));
  }
  return lines;
}

std::vector<std::string> Lines() {
  Memory memory;
  std::vector<std::string> lines = LinesFrom(memory);
  lines.insert(lines.begin(), JobLine(Job()));
  return lines;
}

// As the log has them, with its end.
std::vector<std::string> Sealed(std::vector<std::string> lines) {
  lines.push_back(EndLine(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("{\"input\"");
  })));
  PlanLogSeal seal;
  for (std::string& line : lines) line = seal.Sealed(line);
  return lines;
}

StatusOr<Replay> ReplaySealed(const std::vector<std::string>& lines) {
  std::stringstream log;
  for (const std::string& line : lines) log << line << "\n";
  return ReplayPlanLog(log);
}

StatusOr<Replay> ReplayOf(const std::vector<std::string>& lines) {
  return ReplaySealed(Sealed(lines));
}

size_t FirstDecision(const std::vector<std::string>& lines) {
  size_t at = 0;
  while (at < lines.size() && lines[at].rfind("{\"decision\"", 0) != 0) ++at;
  EXPECT_LT(at, lines.size());
  return at;
}

TEST(PlanReplay, MakesTheSameDecisionsAgain) {
  const StatusOr<Replay> replay = ReplayOf(Lines());
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  EXPECT_EQ(replay->inputs, 60);
  EXPECT_EQ(replay->jobs, std::vector<JobFacts>{Job()});
  ASSERT_FALSE(replay->decisions.empty());
  EXPECT_EQ(replay->decisions[0].line, Sealed(Lines())[FirstDecision(Lines())]);
  EXPECT_TRUE(replay->end.ok()) << replay->end.ToString();
}

// Squares of gradients that diverge: each rank's energy is a float, their sum is none.
TEST(PlanReplay, ReadsWhatIsTooLargeForItsType) {
  StepObservation seen = {.step = 1, .turn = 1, .step_us = 1000};
  seen.tensors = {{.tensor = Job().tensors[0].id, .energy = 3e38f, .error = 2e38f}};
  const std::vector<StepObservation> ranks = {seen, seen};
  const StatusOr<StepInput> step = Combine(ranks);
  ASSERT_TRUE(step.ok()) << step.status().ToString();
  const DecideInput input = {.turn = 2, .step = *step};
  std::vector<std::string> lines = {JobLine(Job()), InputLine(input)};
  Memory memory;
  if (const auto decision = Decide(Job(), input, &memory)) lines.push_back(DecisionLine(*decision));
  const StatusOr<Replay> replay = ReplayOf(lines);
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  EXPECT_EQ(replay->inputs, 1);
}

// Of inputs from which nothing was decided as well.
TEST(PlanReplay, EveryLineIsTiedToTheOnesBefore) {
  const std::vector<std::string> good = Sealed(Lines());
  const auto refused = [&](size_t at, std::vector<std::string> lines) {
    EXPECT_THAT(ReplaySealed(lines).status().ToString(),
                HasSubstr("line " + std::to_string(at + 1) + " of the plan log: it"));
  };
  for (size_t at = 0; at < good.size(); ++at) {
    const auto here = static_cast<std::ptrdiff_t>(at);
    std::vector<std::string> lines = good;
    char& digit = lines[at][lines[at].find_first_of("0123456789")];
    digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
    refused(at, lines);
    lines = good;
    lines.insert(lines.begin() + here, good[at]);
    refused(at + 1, lines);
    if (at + 1 == good.size()) break;
    lines = good;
    lines.erase(lines.begin() + here);
    refused(at, lines);
  }
}

TEST(PlanReplay, ALogWithoutItsEndIsToldFromAWholeOne) {
  std::vector<std::string> lines = Sealed(Lines());
  lines.pop_back();
  const StatusOr<Replay> replay = ReplaySealed(lines);
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  EXPECT_EQ(replay->inputs, 60);
  EXPECT_THAT(replay->end.ToString(), HasSubstr("line " + std::to_string(lines.size()) +
                                                " of the plan log: the log is cut"));
}

TEST(PlanReplay, AResumedRunBeginsWithWhatWasSaved) {
  Memory memory;
  (void)LinesFrom(memory);
  const std::string knowledge = EncodeKnowledge(Job(), memory);
  Memory resumed = *DecodeKnowledge(Job(), knowledge);
  std::vector<std::string> lines = LinesFrom(resumed);
  lines.insert(lines.begin(), {JobLine(Job()), KnowledgeLine(knowledge)});
  const StatusOr<Replay> replay = ReplayOf(lines);
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  EXPECT_THAT(replay->decisions.at(0).line, HasSubstr("resumed"));
  lines[1].replace(lines[1].find(": \"") + 3, 2, "g0");
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr("line 2"));
  lines[1] = KnowledgeLine(knowledge.substr(1));
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr("line 2"));
}

TEST(PlanReplay, AnAlteredLogIsRefusedWithTheLine) {
  const std::vector<std::string> good = Lines();
  const size_t at = FirstDecision(good);
  const std::string line = "line " + std::to_string(at + 1);

  std::vector<std::string> lines = good;
  lines[at].replace(lines[at].find("bf16 is"), 7, "bf16 was");
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr(line));

  lines = good;
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr(line));

  lines = good;
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), good[at]);
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr("line " + std::to_string(at + 2)));

  lines = good;
  lines[at - 1] = lines[at - 1].substr(0, 50) + "}";
  EXPECT_THAT(ReplayOf(lines).status().ToString(), HasSubstr("line " + std::to_string(at)));
}

TEST(PlanReplay, ALogCutOffIsRefused) {
  std::vector<std::string> lines = Lines();
  const size_t decision = FirstDecision(lines);
  lines = Sealed(lines);
  lines.resize(decision);
  EXPECT_THAT(ReplaySealed(lines).status().ToString(), HasSubstr("ends before"));
  EXPECT_EQ(ReplaySealed({}).status().code(), gwDataCorrupt);
  EXPECT_EQ(ReplayOf({Lines()[1]}).status().code(), gwDataCorrupt);
}

TEST(PlanReplay, ALogOfAnotherFormatIsRefusedAsSuch) {
  std::vector<std::string> lines = Lines();
  const std::string format = "\"format\": " + std::to_string(kPlanLogFormat) + ", ";
  lines[0].replace(lines[0].find(format), format.size(), "");
  EXPECT_THAT(ReplayOf(lines).status().ToString(),
              HasSubstr("another version of gradwire wrote it"));
}

// A job of which nothing can be chosen has no inputs.
TEST(PlanReplay, ALogWithoutInputsIsWhole) {
  const StatusOr<Replay> replay = ReplayOf({JobLine(Job())});
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  EXPECT_TRUE(replay->end.ok()) << replay->end.ToString();
}

TEST(PlanReplay, NumbersOutOfRangeAreRefused) {
  std::vector<std::string> lines = Lines();
  lines[0].replace(lines[0].find("[1, 8192"), 8, "[7, 8192");
  EXPECT_EQ(ReplayOf(lines).status().code(), gwDataCorrupt);
  lines = Lines();
  lines[0].replace(lines[0].find("\"slice_elems\": 1024"), 19, "\"slice_elems\": 0");
  EXPECT_EQ(ReplayOf(lines).status().code(), gwDataCorrupt);
  lines = Lines();
  lines[1].replace(lines[1].find("\"probes\": [[1"), 13, "\"probes\": [[5");
  EXPECT_EQ(ReplayOf(lines).status().code(), gwDataCorrupt);
}

}  // namespace
}  // namespace gradwire
