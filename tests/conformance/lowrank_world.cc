#include "tests/conformance/lowrank_world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compress/codecs/acp/acp_codec.h"
#include "compress/codecs/powersgd/powersgd_codec.h"

namespace gradwire {
namespace {

// `count` orthonormal vectors of `elems`.
std::vector<std::vector<double>> Frame(int64_t elems, size_t count, RandomStream* random) {
  std::vector<std::vector<double>> frame;
  while (frame.size() < count) {
    const Floats drawn = Gaussians(elems, random);
    std::vector<double> v(drawn.begin(), drawn.end());
    for (int pass = 0; pass < 2; ++pass) {
      for (const auto& unit : frame) {
        double dot = 0;
        for (size_t i = 0; i < v.size(); ++i) dot += v[i] * unit[i];
        for (size_t i = 0; i < v.size(); ++i) v[i] -= dot * unit[i];
      }
    }
    double norm2 = 0;
    for (double x : v) norm2 += x * x;
    for (double& x : v) x /= std::sqrt(norm2);
    frame.push_back(std::move(v));
  }
  return frame;
}

}  // namespace

std::shared_ptr<const CarrierMethod> LowRankMethod(const std::string& name, int rank) {
  const SpecText spec = {.name = name, .args = {{"rank", std::to_string(rank)}}};
  return (name == "acp" ? MakeAcp(spec) : MakePowerSgd(spec))->carrier;
}

std::string Text(const MatrixShape& shape) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
}

Floats Gaussians(int64_t count, RandomStream* random) {
  Floats values(static_cast<size_t>(count));
  for (float& v : values) {
    v = static_cast<float>(std::sqrt(-2 * std::log(1 - random->Unit())) *
                           std::cos(2 * M_PI * random->Unit()));
  }
  return values;
}

Floats MatrixOf(const MatrixShape& shape, const std::vector<double>& singular_values,
                RandomStream* random) {
  const auto left = Frame(shape.rows, singular_values.size(), random);
  const auto right = Frame(shape.cols, singular_values.size(), random);
  Floats m(static_cast<size_t>(shape.elems()));
  for (int64_t i = 0; i < shape.elems(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < singular_values.size(); ++k) {
      sum += left[k][static_cast<size_t>(i / shape.cols)] * singular_values[k] *
             right[k][static_cast<size_t>(i % shape.cols)];
    }
    m[static_cast<size_t>(i)] = static_cast<float>(sum);
  }
  return m;
}

Floats Scaled(Floats values, float factor) {
  for (float& v : values) v *= factor;
  return values;
}

double Energy(const Floats& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return sum;
}

double Distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    sum += d * d;
  }
  return std::sqrt(sum);
}

std::vector<std::byte> BytesOf(const Floats& values) {
  std::vector<std::byte> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Floats FloatsOf(const std::vector<std::byte>& bytes) {
  Floats values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), 4 * values.size());
  return values;
}

LowRankRanks::LowRankRanks(const Options& options)
    : method_(LowRankMethod(options.method, options.rank)) {
  const EncodeCase start = {.e_in = Floats(static_cast<size_t>(options.shape.elems())),
                            .mode = options.mode,
                            .dither = {.seed = 3, .tensor = options.tensor},
                            .shape = {options.shape.rows, options.shape.cols}};
  cases_.assign(static_cast<size_t>(options.world_size), start);
}

Floats LowRankRanks::Step(const std::vector<Floats>& grads, float out_scale, const Damage& damage) {
  for (size_t r = 0; r < cases_.size(); ++r) cases_[r].grad = BytesOf(grads[r]);
  results_ =
      RunCarriers(*method_, cases_, InOrder(static_cast<int>(cases_.size())), out_scale, damage);
  for (size_t r = 0; r < cases_.size(); ++r) {
    EXPECT_TRUE(results_[r].absorbed.ok()) << results_[r].absorbed.ToString();
    EXPECT_TRUE(results_[r].out == results_[0].out) << "rank " << r;
    EXPECT_TRUE(results_[r].replicated == results_[0].replicated) << "rank " << r;
  }
  TakeStep(results_, &cases_);
  return FloatsOf(results_[0].out);
}

void LowRankRanks::set_state(const std::vector<std::byte>& state) {
  for (EncodeCase& c : cases_) c.replicated = state;
}

void ExpectConserved(const std::vector<Floats>& inputs, const Floats& sum,
                     const LowRankRanks& ranks) {
  double norm = 0;
  for (const Floats& input : inputs) norm += std::sqrt(Energy(input));
  for (size_t i = 0; i < sum.size(); ++i) {
    double in = 0, held = sum[i];
    for (size_t r = 0; r < inputs.size(); ++r) {
      in += inputs[r][i];
      held += ranks.e(static_cast<int>(r))[i];
    }
    // The last: roundings to subnormals.
    ASSERT_NEAR(held, in, 1e-6 * norm + 1e-43) << "element " << i;
  }
}

}  // namespace gradwire
