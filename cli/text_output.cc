#include "cli/text_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

// False: errno says why.
bool WriteToStdout(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

// errno says why.
Status CannotWrite(const std::string& path) {
  return ErrnoStatus(fmt::format("cannot write '{}'", path), errno);
}

Status WriteInPlace(const std::string& path, std::string_view text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status::Ok() : CannotWrite(path);
}

// The old file stays whole until the new one is. Where that cannot take its place, as in a folder
// that is not to be written, the old one is overwritten.
Status Replace(const std::string& path, std::filesystem::perms mode, std::string_view text) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  const std::string partial = target.string() + ".partial";
  if (error || !std::ofstream(partial)) return WriteInPlace(path, text);
  const Status written = WriteInPlace(partial, text);
  if (written.ok()) {
    std::filesystem::permissions(partial, mode, error);
    if (std::rename(partial.c_str(), target.c_str()) == 0) return Status::Ok();
  }
  std::filesystem::remove(partial, error);
  return written.ok() ? WriteInPlace(path, text) : written;
}

}  // namespace

Status WriteTextTo(const std::string& path, std::string_view text) {
  if (path == "-") {
    return WriteToStdout(text) ? Status::Ok() : ErrnoStatus("cannot write standard output", errno);
  }
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  // All else is written in place: what is new, and pipes.
  const bool is_old_file =
      std::filesystem::is_regular_file(there) && access(path.c_str(), W_OK) == 0;
  return is_old_file ? Replace(path, there.permissions(), text) : WriteInPlace(path, text);
}

Status CheckOutputs(std::span<const std::string> paths) {
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path->empty()) continue;
    if (std::find(paths.begin(), path, *path) != path) {
      return Status(gwInvalidArgument, fmt::format("two results would go to '{}'", *path),
                    "Give each a file of its own; one may go to standard output");
    }
    std::error_code error;
    const bool was_there = std::filesystem::exists(*path, error);
    // The reader of a pipe would take the trial for the end.
    if (*path == "-" || (was_there && !std::filesystem::is_regular_file(*path, error))) continue;
    if (!std::ofstream(*path, std::ios::app)) return CannotWrite(*path);
    if (!was_there) std::filesystem::remove(*path, error);
  }
  return Status::Ok();
}

Status CheckReplacesNone(const std::string& output, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    std::error_code no_such_file;
    if (output == "-" || !std::filesystem::equivalent(input, output, no_such_file)) continue;
    return Status(gwInvalidArgument, fmt::format("'{}' would replace its own input", output),
                  "Give -o another name than " + input);
  }
  return Status::Ok();
}

// What fails stays known to `stdout`; CheckedExitCode asks it.
void PrintLine(std::string_view line) { (void)WriteToStdout(std::string(line) + "\n"); }

int CheckedExitCode(int exit_code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code != kExitOk) return exit_code;
  fmt::print(stderr, "gradwire: cannot write standard output\n");
  return kExitFailed;
}

std::string FormatColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) line += fmt::format("{:<{}}  ", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string CsvText(std::string_view text) {
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + '"';
}

int ReportError(std::string_view subcommand, const Status& status) {
  fmt::print(stderr, "gradwire {}: {}\n", subcommand, status.ToString());
  return status.code() == gwInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace gradwire
