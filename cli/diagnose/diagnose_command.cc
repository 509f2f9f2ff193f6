#include "cli/diagnose/diagnose_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/diagnose/diagnosis_report.h"
#include "cli/diagnose/recorder_folder.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Reads the flight recorder's files that the ranks of a job left in a folder, also those of\n"
    "killed ranks, and says what went wrong and whose doing it was. Files from several machines\n"
    "are copied into one folder first.\n\n"
    "example: GRADWIRE_RECORDER_DIR=/tmp/rec gradwire run -n 4 -- ./train; gradwire diagnose "
    "/tmp/rec";

struct Options {
  std::string dir, job, json_path;
  int64_t last = 0;
};

std::optional<int> Parse(std::span<const std::string> args, Options* options) {
  CommandLine line(kDescription, "gradwire diagnose");
  line.Add("dir", &options->dir, "folder of *.rec files, or one file").Required();
  line.Add("--job", &options->job, "this job, as in the file names; default the newest");
  line.Add("--last", &options->last, "also list the last N events of all ranks by time")
      .InRange(0, 1 << 30);
  line.AddJson("--json", &options->json_path);
  return line.Parse(args);
}

std::string JobName(const RecordedJob& job) { return fmt::format("{:016x}", job.job); }

StatusOr<RecordedJob*> ChooseJob(RecorderFolder* folder, const Options& options) {
  if (folder->jobs.empty()) {
    return Status(gwDataCorrupt, fmt::format("no readable recorder file in {}", options.dir));
  }
  if (options.job.empty()) return &folder->jobs.front();
  std::string names;
  for (RecordedJob& job : folder->jobs) {
    if (JobName(job).ends_with(options.job)) return &job;
    names += " " + JobName(job);
  }
  return Status(gwInvalidArgument, fmt::format("no job '{}' in {}", options.job, options.dir),
                "There are:" + names);
}

void PrintOthers(const RecorderFolder& folder, const RecordedJob& chosen) {
  for (const std::string& problem : folder.unreadable)
    fmt::print(stderr, "unreadable: {}\n", problem);
  for (const RecordedJob& job : folder.jobs) {
    if (job.job != chosen.job) {
      fmt::print(stderr, "another job in this folder: --job {}\n", JobName(job));
    }
  }
}

}  // namespace

int DiagnoseCommand(std::span<const std::string> args) {
  Options options;
  if (const auto code = Parse(args, &options)) return *code;
  StatusOr<RecorderFolder> folder = ReadRecorderFolder(options.dir);
  if (!folder.ok()) return ReportError("diagnose", folder.status());
  const StatusOr<RecordedJob*> chosen = ChooseJob(&*folder, options);
  if (!chosen.ok()) return ReportError("diagnose", chosen.status());
  PrintOthers(*folder, **chosen);
  const JobRecord job = MergeLogs(std::move((*chosen)->logs));
  const Diagnosis diagnosis = Diagnose(job);
  if (options.json_path != "-") fmt::print("{}", DiagnosisText(job, diagnosis, options.last));
  if (options.json_path.empty()) return kExitOk;
  const Status written =
      WriteTextTo(options.json_path, DiagnosisJson(job, diagnosis, options.last));
  return written.ok() ? kExitOk : ReportError("diagnose", written);
}

}  // namespace gradwire
