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
  line.Add("--job", &options->job,
           "this one, as in the file names, or the end of its name; default of the newest run");
  line.Add("--last", &options->last, "also list the last N events of all ranks by time")
      .InRange(0, 1 << 30);
  line.AddJson("--json", &options->json_path);
  return line.Parse(args);
}

std::string JobName(const RecordedJob& job) { return fmt::format("{:016x}", job.job); }

// A communicator that was looked into.
struct Examined {
  JobRecord record;
  Diagnosis diagnosis;
};

Examined Examine(const RecordedJob& job) {
  Examined examined = {.record = MergeLogs(job.logs)};
  examined.diagnosis = Diagnose(examined.record);
  return examined;
}

// From its start to its last event. A process number of an old run may come again, mostly in
// containers.
bool AtOneTime(const RecorderLog& a, const RecorderLog& b) {
  const auto end_ns = [](const RecorderLog& log) {
    const int64_t begin_ns = log.header.start_wall_ns;
    return log.entries.empty() ? begin_ns
                               : std::max(begin_ns, log.WallNs(log.entries.back().time_ns));
  };
  return a.header.start_wall_ns <= end_ns(b) && b.header.start_wall_ns <= end_ns(a);
}

bool ShareAProcess(const RecordedJob& a, const RecordedJob& b) {
  const auto same = [](const RecorderLog& x, const RecorderLog& y) {
    return x.header.pid == y.header.pid && TextOf(x.header.host) == TextOf(y.header.host) &&
           AtOneTime(x, y);
  };
  return std::any_of(a.logs.begin(), a.logs.end(), [&](const RecorderLog& x) {
    return std::any_of(b.logs.begin(), b.logs.end(),
                       [&](const RecorderLog& y) { return same(x, y); });
  });
}

// The communicators of the processes of `job`, itself first, and of processes that share one with
// these.
std::vector<const RecordedJob*> RunOf(const RecorderFolder& folder, const RecordedJob& job) {
  std::vector<const RecordedJob*> run = {&job};
  for (size_t i = 0; i < run.size(); ++i) {
    for (const RecordedJob& other : folder.jobs) {
      const bool known = std::find(run.begin(), run.end(), &other) != run.end();
      if (!known && ShareAProcess(*run[i], other)) run.push_back(&other);
    }
  }
  return run;
}

// Of the newest run, whose processes may have several communicators: one that has culprits, and of
// those the one of the most ranks, whose numbers people know.
Examined ExamineNewest(const RecorderFolder& folder) {
  std::vector<Examined> all;
  for (const RecordedJob* job : RunOf(folder, folder.jobs.front())) all.push_back(Examine(*job));
  return *std::max_element(all.begin(), all.end(), [](const Examined& a, const Examined& b) {
    const auto rank_of = [](const Examined& e) {
      return std::pair(!e.diagnosis.culprits.empty(), e.record.world_size);
    };
    return rank_of(a) < rank_of(b);
  });
}

StatusOr<Examined> ChooseJob(const RecorderFolder& folder, const Options& options) {
  if (folder.jobs.empty()) {
    return Status(gwDataCorrupt, fmt::format("no readable recorder file in {}", options.dir));
  }
  if (options.job.empty()) return ExamineNewest(folder);
  std::string all, named;
  const RecordedJob* chosen = nullptr;
  for (const RecordedJob& job : folder.jobs) {
    const std::string name = JobName(job);
    all += " " + name;
    if (!name.ends_with(options.job)) continue;
    chosen = &job;
    named += " " + name;
  }
  if (chosen == nullptr) {
    return Status(gwInvalidArgument, fmt::format("no job '{}' in {}", options.job, options.dir),
                  "There are:" + all);
  }
  if (named != " " + JobName(*chosen)) {
    return Status(gwInvalidArgument,
                  fmt::format("'{}' ends the names of several jobs", options.job),
                  "They are:" + named);
  }
  return Examine(*chosen);
}

void PrintOthers(const RecorderFolder& folder, uint64_t chosen) {
  for (const std::string& problem : folder.unreadable)
    fmt::print(stderr, "unreadable: {}\n", problem);
  const auto mine = std::find_if(folder.jobs.begin(), folder.jobs.end(),
                                 [&](const RecordedJob& job) { return job.job == chosen; });
  const std::vector<const RecordedJob*> run = RunOf(folder, *mine);
  for (const RecordedJob& job : folder.jobs) {
    if (job.job == chosen) continue;
    fmt::print(stderr, "{}: --job {}\n",
               std::find(run.begin(), run.end(), &job) != run.end()
                   ? "another communicator of this run, with rank numbers of its own"
                   : "another job in this folder",
               JobName(job));
  }
}

}  // namespace

int DiagnoseCommand(std::span<const std::string> args) {
  Options options;
  if (const auto code = Parse(args, &options)) return *code;
  const StatusOr<RecorderFolder> folder = ReadRecorderFolder(options.dir);
  if (!folder.ok()) return ReportError("diagnose", folder.status());
  const StatusOr<Examined> chosen = ChooseJob(*folder, options);
  if (!chosen.ok()) return ReportError("diagnose", chosen.status());
  const auto& [job, diagnosis] = *chosen;
  PrintOthers(*folder, job.job);
  if (options.json_path != "-") {
    const Status printed = WriteTextTo("-", DiagnosisText(job, diagnosis, options.last));
    if (!printed.ok()) return ReportError("diagnose", printed);
  }
  if (options.json_path.empty()) return kExitOk;
  const Status written =
      WriteTextTo(options.json_path, DiagnosisJson(job, diagnosis, options.last));
  return written.ok() ? kExitOk : ReportError("diagnose", written);
}

}  // namespace gradwire
