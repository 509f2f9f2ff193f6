#include "cli/launch/line_relay.h"

namespace gradwire {

std::string LineRelay::Append(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t feed = bytes.find('\n');
    const size_t room = kMaxLineBytes - partial_.size();
    const size_t taken = std::min(feed == bytes.npos ? bytes.size() : feed, room);
    partial_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    const bool ends = !bytes.empty() && bytes.front() == '\n';
    if (ends) bytes.remove_prefix(1);
    if (!ends && partial_.size() < kMaxLineBytes) continue;
    out += prefix_ + partial_ + '\n';
    partial_.clear();
  }
  return out;
}

std::string LineRelay::Finish() {
  if (partial_.empty()) return {};
  return prefix_ + std::exchange(partial_, {}) + '\n';
}

}  // namespace gradwire
