#include "base/forks.h"

#include <pthread.h>

#include <atomic>

namespace gradwire {
namespace {

std::atomic<uint32_t> generation{0};

void CountFork() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t ForkGeneration() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, CountFork);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace gradwire
