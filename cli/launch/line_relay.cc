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
    if (bytes.empty()) break;  // also with a full piece: its line may end here
    const bool ends = bytes.front() == '\n';
    if (ends) bytes.remove_prefix(1);
    out += prefix_ + partial_;
    if (ends || !prefix_.empty()) out += '\n';
    partial_.clear();
  }
  return out;
}

std::string LineRelay::Finish() {
  if (partial_.empty()) return {};
  return prefix_ + std::exchange(partial_, {}) + '\n';
}

}  // namespace gradwire
