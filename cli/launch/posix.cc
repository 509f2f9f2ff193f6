#include "cli/launch/posix.h"

#include <unistd.h>

namespace gradwire {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

bool WriteFully(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = RetryOnSignal([&] { return write(fd, text.data(), text.size()); });
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = RetryOnSignal([&] { return read(fd, buffer, sizeof buffer); })) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

void ExecCommand(const std::vector<std::string>& command) {
  execvp(command[0].c_str(), Pointers(command).data());
}

}  // namespace gradwire
