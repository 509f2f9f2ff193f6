// How often the process has allocated: a test that links this has an operator new that counts. The
// sanitizers replace it themselves, so such a test has the tag no-asan.
#ifndef GRADWIRE_TESTS_LIB_ALLOCATION_COUNT_H_
#define GRADWIRE_TESTS_LIB_ALLOCATION_COUNT_H_

#include <cstdint>

namespace gradwire {

int64_t AllocationCount();

// While it lives `failures` allocations of this thread fail, after the next `spared` ones. One at a
// time.
class NoMemory {
 public:
  explicit NoMemory(int64_t spared, int64_t failures = 1);
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_ALLOCATION_COUNT_H_
