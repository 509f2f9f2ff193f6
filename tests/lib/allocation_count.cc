#include "tests/lib/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
thread_local int64_t to_spare = 0, to_fail = 0;

bool Fails() {
  if (to_fail == 0) return false;
  int64_t& left = to_spare > 0 ? to_spare : to_fail;
  --left;
  return &left == &to_fail;
}
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (Fails()) throw std::bad_alloc();
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace gradwire {

int64_t AllocationCount() { return allocations; }

NoMemory::NoMemory(int64_t spared, int64_t failures) { to_spare = spared, to_fail = failures; }
NoMemory::~NoMemory() { to_fail = 0; }

}  // namespace gradwire
