#include "cli/measure/job_ids.h"

namespace gradwire {

void JobIds::Give(const gwUniqueId& id) {
  const std::lock_guard lock(mutex_);
  ids_.push_back(id);
  changed_.notify_all();
}

void JobIds::End() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

StatusOr<gwUniqueId> JobIds::Await(int i) {
  const auto index = static_cast<size_t>(i);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return index < ids_.size() || is_over_; });
  if (index < ids_.size()) return ids_[index];
  return Status(gwPeerLost, "rank 0 could not start");
}

}  // namespace gradwire
