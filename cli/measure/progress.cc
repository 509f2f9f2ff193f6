#include "cli/measure/progress.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/terminal_line.h"

namespace gradwire {
namespace {

constexpr int64_t kEveryNs = 300 * kNsPerMs;

}  // namespace

bool ShowsProgress() {
  const char* const told = std::getenv(kProgressVariable);
  const bool is_told = told != nullptr && std::string_view(told) == "1";
  // The launcher's pipe: what a program has turned elsewhere ends at no terminal.
  struct stat about = {};
  const bool is_pipe = fstat(STDERR_FILENO, &about) == 0 && S_ISFIFO(about.st_mode);
  return isatty(STDERR_FILENO) != 0 || (is_told && is_pipe);
}

std::FILE* ProgressTerminal(const RunFacts* facts) {
  return facts != nullptr && ShowsProgress() ? stderr : nullptr;
}

void Progress::Count(int64_t done, int64_t of) {
  if (terminal_ == nullptr) return;
  const int64_t now_ns = clock_.NowNs();
  if (now_ns - last_ns_ < kEveryNs) return;
  last_ns_ = now_ns;
  shown_ = true;
  // A longer line before has left more.
  fmt::print(terminal_, "\r{} {} of {}{}", stage_, done, of, kClearRest);
  std::fflush(terminal_);
}

void Progress::Clear() {
  if (!shown_) return;
  shown_ = false;
  fmt::print(terminal_, "{}", kClearLine);
  std::fflush(terminal_);
}

}  // namespace gradwire
