// What the tests of low-rank carriers share: matrices whose singular values are known, and ranks
// that carry residuals and replicated state from step to step.
#ifndef GRADWIRE_TESTS_CONFORMANCE_LOWRANK_WORLD_H_
#define GRADWIRE_TESTS_CONFORMANCE_LOWRANK_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/carrier_method.h"
#include "tests/conformance/carrier_world.h"

namespace gradwire {

using Floats = std::vector<float>;

// "powersgd" or "acp".
std::shared_ptr<const CarrierMethod> LowRankMethod(const std::string& name, int rank);
inline const std::vector<std::string> kLowRankNames = {"powersgd", "acp"};

struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t elems() const { return rows * cols; }
};
std::string Text(const MatrixShape& shape);

Floats Gaussians(int64_t count, RandomStream* random);
// With these singular values; no more of them than rows or columns.
Floats MatrixOf(const MatrixShape& shape, const std::vector<double>& singular_values,
                RandomStream* random);
Floats Scaled(Floats values, float factor);

double Energy(const Floats& values);
// |a - b|.
double Distance(const Floats& a, const Floats& b);
// Of a float32 tensor.
std::vector<std::byte> BytesOf(const Floats& values);
Floats FloatsOf(const std::vector<std::byte>& bytes);

// All ranks of a job that has one tensor. Residuals begin as zeros.
class LowRankRanks {
 public:
  struct Options {
    std::string method;
    int rank = 4;
    MatrixShape shape;
    int world_size = 1;
    ResidualMode mode = ResidualMode::kSeparate;
    uint64_t tensor = 5;
  };
  explicit LowRankRanks(const Options& options);

  // A step on the ranks' gradients, committed. Expects the same result and state on all ranks.
  // Returns the sum, times out_scale.
  Floats Step(const std::vector<Floats>& grads, float out_scale = 1.0f,
              const Damage& damage = nullptr);

  const Floats& e(int rank) const { return cases_[static_cast<size_t>(rank)].e_in; }
  void set_e(int rank, Floats e) { cases_[static_cast<size_t>(rank)].e_in = std::move(e); }
  const std::vector<std::byte>& state() const { return cases_[0].replicated; }
  void set_state(const std::vector<std::byte>& state);
  // Of the last step.
  const CarrierRank& result(int rank) const { return results_[static_cast<size_t>(rank)]; }
  const CarrierMethod& method() const { return *method_; }

 private:
  std::shared_ptr<const CarrierMethod> method_;
  std::vector<EncodeCase> cases_;
  std::vector<CarrierRank> results_;
};

// sum (g + e) = sum + sum e', up to rounding that grows with `world_size` and the matrix's norm.
void ExpectConserved(const std::vector<Floats>& inputs, const Floats& sum,
                     const LowRankRanks& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_LOWRANK_WORLD_H_
