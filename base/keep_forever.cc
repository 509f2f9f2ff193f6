#include "base/keep_forever.h"

#include <mutex>
#include <utility>
#include <vector>

namespace gradwire {

void KeepForever(std::shared_ptr<const void> memory) {
  // Themselves never destroyed: threads may come here while the process ends.
  static auto* const mu = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  std::lock_guard lock(*mu);
  kept->push_back(std::move(memory));
}

}  // namespace gradwire
