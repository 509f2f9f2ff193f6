#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/diagnose/diagnose_command.h"
#include "cli/diagnose/diagnosis_report.h"
#include "cli/diagnose/recorder_folder.h"
#include "cli/subcommand.h"
#include "runtime/recorder/recorder.h"
#include "runtime/recorder/recorder_in_folder.h"

namespace gradwire {
namespace {

constexpr int64_t kWallNs = 1'700'000'000'000'000'000;

RecorderOptions RankOptions(const std::string& dir, int rank, int world_size, uint64_t job = 0xa) {
  return {.dir = dir,
          .job = job,
          .rank = rank,
          .world_size = world_size,
          .host = "node",
          .start_wall_ns = kWallNs + static_cast<int64_t>(job)};
}

void Submit(Recorder* recorder, uint32_t op, const std::string& tensor) {
  recorder->Record({.kind = RecordKind::kSubmit,
                    .time_ns = 1000 * (op + 1),
                    .op_seq = op,
                    .bytes = 64,
                    .dtype = DType::kFloat32,
                    .signature = op,
                    .text = "all-reduce",
                    .tensor = tensor});
}

JobRecord ReadJob(const std::string& dir) {
  auto folder = ReadRecorderFolder(dir);
  EXPECT_TRUE(folder.ok()) << folder.status().ToString();
  return MergeLogs(std::move(folder->jobs.at(0).logs));
}

void ExpectIn(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

// Ranks 0 and 1 wait in an operation that rank 2 never entered; rank 3 left no file.
void WriteStuckJob(const std::string& dir) {
  for (int rank = 0; rank < 3; ++rank) {
    auto recorder = OpenOrDie(RankOptions(dir, rank, 4));
    recorder->Record({.kind = RecordKind::kVote, .time_ns = 10, .value = 7});
    recorder->Record({.kind = RecordKind::kResult, .time_ns = 20, .step = 5});
    for (uint32_t op = 0; op < (rank == 2 ? 1u : 2u); ++op) {
      const std::string tensor = "w\xff" + std::to_string(op);
      recorder->Record({.kind = RecordKind::kSubmit,
                        .time_ns = 100 * (op + 1),
                        .turn = 1,
                        .op_seq = op,
                        .text = "all-reduce",
                        .tensor = tensor});
    }
  }
}

TEST(DiagnosisText, SaysWhoWhatAndWhere) {
  const std::string dir = TestFolder();
  WriteStuckJob(dir);
  const JobRecord job = ReadJob(dir);
  const std::string text = DiagnosisText(job, Diagnose(job), 3);
  ExpectIn("# job 000000000000000a: 4 ranks, files of 3, last event 2023-11-14 22:13:20.", text);
  ExpectIn(
      "verdict: rank 2 never submitted operation #1 (all-reduce w\xff"
      "1), in which ranks 0 and 1",
      text);
  ExpectIn("also: no readable file of rank 3", text);
  ExpectIn(
      "#0 all-reduce w\xff"
      "0 (open)",
      text);
  ExpectIn("# the last vote", text);
  ExpectIn("none  -", text);  // rank 3's vote
  ExpectIn("# s_before_end", text);
  EXPECT_EQ(LastEntries(job, 3).size(), 3u);
  EXPECT_EQ(LastEntries(job, 1000).size(), 14u);
  EXPECT_TRUE(LastEntries(job, 0).empty());
}

TEST(Diagnosis, CountsOfVotesGoOnPast2To31) {
  const std::string dir = TestFolder();
  OpenOrDie(RankOptions(dir, 0, 1))
      ->Record(
          {.kind = RecordKind::kVote, .time_ns = 10, .value = static_cast<int32_t>(3'000'000'000)});
  const JobRecord job = ReadJob(dir);
  ExpectIn("yes   3000000000  -", DiagnosisText(job, Diagnose(job), 0));
  const auto json = nlohmann::json::parse(DiagnosisJson(job, Diagnose(job), 1));
  EXPECT_EQ(json["votes"][0]["operations"], 3'000'000'000);
  EXPECT_EQ(json["events"][0]["value"], 3'000'000'000);
}

TEST(DiagnosisJson, IsJsonWhateverTheNames) {
  const std::string dir = TestFolder();
  WriteStuckJob(dir);
  const JobRecord job = ReadJob(dir);
  const auto json = nlohmann::json::parse(DiagnosisJson(job, Diagnose(job), 2));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["job"], "000000000000000a");
  EXPECT_EQ(json["culprits"], std::vector<int>{2});
  EXPECT_EQ(json["findings"][0]["kind"], "never_submitted");
  EXPECT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][0]["last_operation"]["op_seq"], 1);
  EXPECT_EQ(json["ranks"][0]["last_event"]["kind"], "submit");
  EXPECT_FALSE(json["ranks"][3]["present"]);
  EXPECT_EQ(json["operations"][1]["never_submitted"], std::vector<int>{2});
  EXPECT_EQ(json["votes"].size(), 3u);
  EXPECT_EQ(json["events"].size(), 2u);
}

TEST(RecorderFolder, SortsJobsAndKeepsWhatItCannotRead) {
  const std::string dir = TestFolder();
  OpenOrDie(RankOptions(dir, 0, 1, 1));
  OpenOrDie(RankOptions(dir, 1, 2, 2));
  OpenOrDie(RankOptions(dir, 0, 2, 2));
  std::ofstream(dir + "/broken.rec") << "no recorder";
  std::ofstream(dir + "/other.txt") << "not ours";
  const auto folder = ReadRecorderFolder(dir);
  ASSERT_TRUE(folder.ok());
  ASSERT_EQ(folder->jobs.size(), 2u);
  EXPECT_EQ(folder->jobs[0].job, 2u);
  EXPECT_EQ(folder->jobs[0].logs.size(), 2u);
  ASSERT_EQ(folder->unreadable.size(), 1u);
  ExpectIn("broken.rec", folder->unreadable[0]);
  const auto one = ReadRecorderFolder(dir + "/" + RecorderFileName(2, 1));
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->jobs.size(), 1u);
}

TEST(RecorderFolder, EmptyOrMissingFolderIsAnError) {
  const std::string dir = TestFolder();
  EXPECT_EQ(ReadRecorderFolder(dir).status().code(), gwSystemError);
  std::filesystem::create_directory(dir);
  const Status empty = ReadRecorderFolder(dir).status();
  EXPECT_EQ(empty.code(), gwSystemError);
  ExpectIn("GRADWIRE_RECORDER_DIR", empty.ToString());
}

TEST(DiagnoseCommand, ExitCodes) {
  const std::string dir = TestFolder();
  OpenOrDie(RankOptions(dir, 0, 1, 1));
  OpenOrDie(RankOptions(dir, 0, 1, 2));
  const auto run = [](std::vector<std::string> args) { return DiagnoseCommand(args); };
  EXPECT_EQ(run({dir}), kExitOk);
  EXPECT_EQ(run({dir, "--job", "1", "--last", "5", "--json", dir + "/out.json"}), kExitOk);
  std::ifstream file(dir + "/out.json");
  EXPECT_EQ(nlohmann::json::parse(file)["job"], "0000000000000001");
  EXPECT_EQ(run({dir, "--job", "77"}), kExitUsage);
  OpenOrDie(RankOptions(dir, 0, 1, 0x21));
  EXPECT_EQ(run({dir, "--job", "1"}), kExitUsage) << "which of the two?";
  EXPECT_EQ(run({dir, "--job", "01"}), kExitOk);
  EXPECT_EQ(run({dir, "--json", dir + "/no/out.json"}), kExitFailed);
  EXPECT_EQ(run({dir + "/none"}), kExitFailed);
  EXPECT_EQ(run({}), kExitUsage);
}

// The one that is chosen where nobody names any.
std::string DiagnosedJob(const std::string& dir) {
  const std::string json = dir + "/out.json";
  EXPECT_EQ(DiagnoseCommand(std::vector<std::string>{dir, "--json", json}), kExitOk);
  std::ifstream file(json);
  return nlohmann::json::parse(file)["job"];
}

// A group that was split from the job started last and knows of nothing.
TEST(DiagnoseCommand, TakesTheCommunicatorThatKnowsWho) {
  const std::string dir = TestFolder();
  WriteStuckJob(dir);
  for (int rank = 0; rank < 2; ++rank) OpenOrDie(RankOptions(dir, rank, 2, 0xb));
  EXPECT_EQ(DiagnosedJob(dir), "000000000000000a");
}

// Numbers of processes come again: what an old run left must not be taken for the newest one's.
TEST(DiagnoseCommand, LeavesOldRunsAlone) {
  const std::string dir = TestFolder();
  WriteStuckJob(dir);
  for (int rank = 0; rank < 2; ++rank) OpenOrDie(RankOptions(dir, rank, 2, 0xf0000));
  EXPECT_EQ(DiagnosedJob(dir), "00000000000f0000");
}

// ---- a real kill ----

// Rank 1: submits one operation, says so through the pipe, and goes on until it is killed.
[[noreturn]] void VictimMain(const std::string& dir, int ready_fd) {
  auto recorder = Recorder::Open(RankOptions(dir, 1, 3));
  if (!recorder.ok()) _exit(1);
  Submit(recorder->get(), 0, "w0");
  if (write(ready_fd, "x", 1) != 1) _exit(1);
  for (uint32_t slice = 0;; ++slice) {
    (*recorder)->Record({.kind = RecordKind::kSliceDone, .time_ns = 1500, .slice = slice});
  }
}

TEST(Diagnose, RankThatWasReallyKilled) {
  const std::string dir = TestFolder();
  Pipe pipe;
  ASSERT_TRUE(pipe.Open().ok());
  const pid_t victim = fork();
  ASSERT_GE(victim, 0);
  if (victim == 0) VictimMain(dir, pipe.write_end.get());
  char byte;
  ASSERT_EQ(read(pipe.read_end.get(), &byte, 1), 1);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  ASSERT_EQ(waitpid(victim, nullptr, 0), victim);
  for (const int rank : {0, 2}) {
    auto recorder = OpenOrDie(RankOptions(dir, rank, 3));
    Submit(recorder.get(), 0, "w0");
    recorder->Record({.kind = RecordKind::kPeerLost,
                      .time_ns = 2'000'000'000,
                      .peer = 1,
                      .text = "its process is gone"});
    recorder->Record({.kind = RecordKind::kClose, .time_ns = 2'000'000'001});
  }
  const JobRecord job = ReadJob(dir);
  const Diagnosis diagnosis = Diagnose(job);
  EXPECT_EQ(diagnosis.culprits, std::vector<int>{1});
  ExpectIn("rank 1 was lost: its process is gone, as ranks 0 and 2 recorded", diagnosis.verdict);
  ExpectIn("killed or stopped?", diagnosis.verdict);
  EXPECT_EQ(job.ranks[1].log.header.pid, static_cast<uint32_t>(victim));
  EXPECT_EQ(DiagnoseCommand(std::vector<std::string>{dir}), kExitOk);
}

}  // namespace
}  // namespace gradwire
