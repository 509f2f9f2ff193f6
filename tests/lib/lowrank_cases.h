// Matrices and factors whose ends no kernel may cross, on each target.
#ifndef GRADWIRE_TESTS_LIB_LOWRANK_CASES_H_
#define GRADWIRE_TESTS_LIB_LOWRANK_CASES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/test_seed.h"

namespace gradwire {

using Floats = std::vector<float>;

inline constexpr Dither kDither = {.seed = 7, .tensor = 0x123456789ABCDEFull, .step = 11};

// An array whose ends no kernel may cross.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : buffer_(bytes) {}
  explicit Guarded(const Floats& values) : Guarded(static_cast<int64_t>(4 * values.size())) {
    std::memcpy(buffer_.data(), values.data(), 4 * values.size());
  }
  ~Guarded() { EXPECT_TRUE(buffer_.intact()); }

  std::byte* bytes() const { return buffer_.data(); }
  float* floats() const { return reinterpret_cast<float*>(buffer_.data()); }
  Bytes view() const { return {buffer_.data(), buffer_.size()}; }
  Floats Copy() const { return Floats(floats(), floats() + buffer_.size() / 4); }

 private:
  GuardedBuffer buffer_;
};

inline float Gaussian(RandomStream* random) {
  return static_cast<float>(std::sqrt(-2 * std::log(1 - random->Unit())) *
                            std::cos(2 * M_PI * random->Unit()));
}

inline Floats Gaussians(int64_t count, RandomStream* random) {
  Floats values(static_cast<size_t>(count));
  for (float& v : values) v = Gaussian(random);
  return values;
}

struct Shape {
  int64_t rows, cols;
  int rank;
};

inline std::string Text(const Shape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.cols) + ", rank " +
         std::to_string(s.rank);
}

inline Guarded Workspace(const Shape& s) {
  return Guarded(LowRankWorkspaceBytes(s.rows, s.cols, s.rank));
}

// Runs on the target that is its parameter.
class OnEachTarget : public testing::TestWithParam<SimdTarget> {
 protected:
  OnEachTarget() : random_(TestSeed(), 0) { ForceTargetForTest(Name(GetParam())); }
  ~OnEachTarget() override { ForceTargetForTest(""); }

  RandomStream random_;
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_LOWRANK_CASES_H_
