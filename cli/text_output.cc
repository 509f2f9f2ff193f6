#include "cli/text_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

// False: errno says why.
bool WriteToStdout(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

}  // namespace

Status WriteTextTo(const std::string& path, std::string_view text) {
  if (path == "-") {
    if (WriteToStdout(text)) return Status::Ok();
    return Status(gwSystemError,
                  fmt::format("cannot write standard output: {}", std::strerror(errno)));
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return Status::Ok();
  return Status(gwSystemError, fmt::format("cannot write '{}'", path));
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

int ReportError(std::string_view subcommand, const Status& status) {
  fmt::print(stderr, "gradwire {}: {}\n", subcommand, status.ToString());
  return status.code() == gwInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace gradwire
