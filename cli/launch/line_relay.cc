#include "cli/launch/line_relay.h"

#include "cli/terminal_line.h"

namespace gradwire {

namespace {

// Without the progress that a line has been written over.
std::string_view Seen(std::string_view line) {
  line.remove_prefix(line.rfind('\r') + 1);
  if (line.starts_with(kClearRest)) line.remove_prefix(kClearRest.size());
  return line;
}

// "gradwire perf: ..." or "gradwire perf --help says more".
bool IsErrorOfOurs(std::string_view line) {
  constexpr std::string_view kName = "gradwire ";
  if (!line.starts_with(kName)) return false;
  line.remove_prefix(kName.size());
  const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
  if (end == line.npos || end == 0) return false;
  line.remove_prefix(end);
  return line.starts_with(": ") || line.starts_with(" --help ");
}

}  // namespace

bool LineRelay::IsToldByAnother() const {
  constexpr size_t kMostLines = 100;  // of a program that goes on so
  const std::string line(Seen(partial_));
  if (told_ == nullptr || !IsErrorOfOurs(line)) return false;
  const auto first = told_->find(line);
  if (first != told_->end()) return first->second != prefix_;
  if (told_->size() < kMostLines) told_->emplace(line, prefix_);
  return false;
}

std::string LineRelay::Append(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t feed = bytes.find('\n');
    const size_t room = kMaxLineBytes - partial_.size();
    const size_t taken = std::min(feed == bytes.npos ? bytes.size() : feed, room);
    partial_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (bytes.empty()) break;  // also with a full piece: its line may end here
    const bool ends = bytes.front() == '\n';
    if (ends) bytes.remove_prefix(1);
    if (ends && IsToldByAnother()) {
      partial_.clear();
      continue;
    }
    out += prefix_ + partial_;
    if (ends || !prefix_.empty()) out += '\n';
    partial_.clear();
  }
  if (passes_progress_ && partial_.find('\r') != partial_.npos) out += std::exchange(partial_, {});
  return out;
}

std::string LineRelay::Finish() {
  if (partial_.empty() || IsToldByAnother()) return {};
  return prefix_ + std::exchange(partial_, {}) + '\n';
}

}  // namespace gradwire
