#include "cli/diagnose/recorder_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

namespace gradwire {
namespace {

namespace fs = std::filesystem;

StatusOr<std::vector<std::string>> ListFiles(const std::string& dir) {
  std::error_code error;
  if (fs::is_regular_file(dir, error)) return std::vector<std::string>{dir};
  std::vector<std::string> paths;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    const bool ours = it->path().extension() == ".rec" && it->is_regular_file(ignored);
    if (ours) paths.push_back(it->path().string());
  }
  if (error) return Status(gwSystemError, fmt::format("cannot list {}: {}", dir, error.message()));
  if (paths.empty()) {
    return Status(
        gwSystemError, fmt::format("no *.rec file in {}", dir),
        "Run the job with GRADWIRE_RECORDER_DIR set to a folder that all ranks can write");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

StatusOr<RecorderFolder> ReadRecorderFolder(const std::string& dir) {
  const StatusOr<std::vector<std::string>> paths = ListFiles(dir);
  if (!paths.ok()) return paths.status();
  RecorderFolder folder;
  std::map<uint64_t, RecordedJob> jobs;
  for (const std::string& path : *paths) {
    StatusOr<RecorderLog> log = ReadRecorder(path);
    if (!log.ok()) {
      folder.unreadable.push_back(fmt::format("{}: {}", path, log.status().ToString()));
      continue;
    }
    RecordedJob& job = jobs[log->header.job];
    job.job = log->header.job;
    job.start_wall_ns = std::max(job.start_wall_ns, log->header.start_wall_ns);
    job.logs.push_back(std::move(*log));
  }
  for (auto& [id, job] : jobs) folder.jobs.push_back(std::move(job));
  std::stable_sort(
      folder.jobs.begin(), folder.jobs.end(),
      [](const RecordedJob& a, const RecordedJob& b) { return a.start_wall_ns > b.start_wall_ns; });
  return folder;
}

}  // namespace gradwire
