// Seeds of tests with random input: fresh in every run, printed on failure, set by hand to repeat
// one.
#ifndef GRADWIRE_TESTS_LIB_TEST_SEED_H_
#define GRADWIRE_TESTS_LIB_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace gradwire {

// GRADWIRE_TEST_SEED where it is set, else random; one value per process.
inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    if (const char* text = std::getenv("GRADWIRE_TEST_SEED")) {
      return static_cast<uint64_t>(std::strtoull(text, nullptr, 10));
    }
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  return seed;
}

// For SCOPED_TRACE.
inline std::string TestSeedText() {
  return "to repeat: --test_env=GRADWIRE_TEST_SEED=" + std::to_string(TestSeed());
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_TEST_SEED_H_
