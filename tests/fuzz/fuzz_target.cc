#include "tests/fuzz/fuzz_target.h"

#include <cstdio>
#include <cstdlib>

namespace gradwire::fuzz {

void Fail(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace gradwire::fuzz
