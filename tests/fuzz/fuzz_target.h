// What a fuzz target defines. One source serves two programs: a test that replays seeds, their
// mutations and random bytes, on every build; and under --config=asan a libFuzzer binary that
// searches on its own.
#ifndef GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_
#define GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

// Feeds any bytes to the code under test. Aborts where a promise is broken (FUZZ_CHECK); always
// returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace gradwire::fuzz {

using Input = std::vector<uint8_t>;

// Valid inputs, to mutate.
std::vector<Input> Seeds();

// Prints and aborts: what libFuzzer, the sanitizers and the replay all see as a failure.
[[noreturn]] void Fail(const char* condition, const char* file, int line);

}  // namespace gradwire::fuzz

#define FUZZ_CHECK(condition) \
  ((condition) ? (void)0 : ::gradwire::fuzz::Fail(#condition, __FILE__, __LINE__))

#endif  // GRADWIRE_TESTS_FUZZ_FUZZ_TARGET_H_
