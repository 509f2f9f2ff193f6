#include "runtime/controller/plan_log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/lib/log_lines.h"

namespace gradwire {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(PlanLogFile, HoldsADecisionWhenToldAndItsEndWhenItGoes) {
  const std::string path = testing::TempDir() + "/plan_log_file";
  {
    PlanLogFile log;
    log.Begin(path, 1);
    log.Add(JobFacts());
    log.AddKnowledge("known");
    log.Add(DecideInput());
    log.Add(Decision());
    EXPECT_EQ(Read(path), "");
    log.WriteOut();
    EXPECT_THAT(Read(path), HasSubstr("\"decision\""));
    EXPECT_THAT(Read(path), HasSubstr("\"knowledge\""));
    log.Add(DecideInput());
  }
  EXPECT_THAT(Read(path), HasSubstr("{\"end\": 2"));
  std::filesystem::remove(path);
}

TEST(PlanLogFile, IsNoneWhereNobodyAskedForOne) {
  const LogLines lines;
  {
    PlanLogFile log;
    log.Add(JobFacts());
    log.Add(DecideInput());
    log.Add(Decision());
  }
  EXPECT_THAT(lines.all(), SizeIs(0));
}

TEST(PlanLogFile, SaysThatItCannotBeMade) {
  const LogLines lines;
  PlanLogFile log;
  log.Begin("/nowhere/log", 1);
  log.Add(JobFacts());
  log.Begin("/nowhere/else", 1);
  EXPECT_THAT(lines.all(), SizeIs(1));
  EXPECT_THAT(lines.With("'/nowhere/log' cannot be written; there is none"), SizeIs(1));
}

// /dev/full takes no byte, as a full disk.
TEST(PlanLogFile, SaysOnceThatItsDiskIsFull) {
  const LogLines lines;
  {
    PlanLogFile log;
    log.Begin("/dev/full", 1);
    log.Add(JobFacts());
    log.Add(Decision());
    EXPECT_THAT(lines.all(), SizeIs(0));
    log.WriteOut();
    EXPECT_THAT(lines.With("'/dev/full' cannot be written any further"), SizeIs(1));
    log.Add(Decision());
    log.WriteOut();
    log.Begin("/dev/full", 1);
  }
  EXPECT_THAT(lines.all(), SizeIs(1));
}

// A line that no buffer holds.
TEST(PlanLogFile, SaysSoAlsoOfALongLine) {
  const LogLines lines;
  PlanLogFile log;
  log.Begin("/dev/full", 1);
  log.AddKnowledge(std::string(1 << 20, 'k'));
  log.WriteOut();
  EXPECT_THAT(lines.With("cannot be written any further"), SizeIs(1));
}

// Nothing was flushed before.
TEST(PlanLogFile, SaysSoAlsoAtItsEnd) {
  const LogLines lines;
  {
    PlanLogFile log;
    log.Begin("/dev/full", 1);
    log.Add(JobFacts());
    EXPECT_THAT(lines.all(), SizeIs(0));
  }
  EXPECT_THAT(lines.With("cannot be written any further"), SizeIs(1));
}

}  // namespace
}  // namespace gradwire
