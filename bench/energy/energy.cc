#include "bench/energy/energy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "compress/registry.h"
#include "tests/conformance/carrier_world.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;

double Normal(RandomStream* random) {
  const double radius = std::sqrt(-2 * std::log(1 - random->Unit()));
  return radius * std::cos(2 * M_PI * random->Unit());
}

double Student3(RandomStream* random) {
  const double numerator = Normal(random);
  double squares = 0;
  for (int i = 0; i < 3; ++i) squares += std::pow(Normal(random), 2);
  return numerator / std::sqrt(squares / 3);
}

// Gradients by rank.
std::vector<Floats> Draw(const EnergyCase& c, RandomStream* random) {
  std::vector<Floats> grads(static_cast<size_t>(c.ranks), Floats(static_cast<size_t>(c.elems)));
  for (size_t i = 0; i < grads[0].size(); ++i) {
    const double scale = std::exp(Normal(random));
    const double common = std::sqrt(c.correlation) * Student3(random);
    for (Floats& grad : grads) {
      const double own = std::sqrt(1 - c.correlation) * Student3(random);
      grad[i] = static_cast<float>(scale * (common + own));
    }
  }
  return grads;
}

Floats SumOf(const std::vector<Floats>& grads) {
  Floats sum(grads[0].size());
  for (const Floats& grad : grads) {
    std::transform(sum.begin(), sum.end(), grad.begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

double EnergyOf(const Floats& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

// Of `sum`, where `by` is largest.
double EnergyAtLargest(const Floats& sum, const Floats& by, int64_t count) {
  std::vector<size_t> order(by.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::nth_element(order.begin(), order.begin() + count, order.end(),
                   [&by](size_t a, size_t b) { return std::fabs(by[a]) > std::fabs(by[b]); });
  double energy = 0;
  for (int64_t i = 0; i < count; ++i) energy += std::pow(sum[order[i]], 2);
  return energy;
}

EncodeCase CaseOf(const Floats& grad, uint32_t step, const std::vector<std::byte>& state) {
  EncodeCase c{
      .dither = {.step = step}, .shape = {static_cast<int64_t>(grad.size())}, .replicated = state};
  c.grad.resize(4 * grad.size());
  std::memcpy(c.grad.data(), grad.data(), c.grad.size());
  return c;
}

Floats FloatsOf(const std::vector<std::byte>& bytes) {
  Floats floats(bytes.size() / 4);
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

EnergyFound FoundBy(const CarrierRank& rank, const Floats& sum, const Floats& leader) {
  const auto values = static_cast<int64_t>(rank.filled.back().size()) / 4;
  size_t bytes = 0;
  for (const auto& round : rank.filled) bytes += round.size();
  const double all = EnergyOf(sum);
  return {.values = static_cast<double>(values),
          .bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(sum.size()),
          .method = EnergyOf(FloatsOf(rank.out)) / all,
          .leader = EnergyAtLargest(sum, leader, values) / all,
          .best = EnergyAtLargest(sum, sum, values) / all};
}

void AddShare(const EnergyFound& found, double share, EnergyFound* mean) {
  mean->values += share * found.values;
  mean->bits += share * found.bits;
  mean->method += share * found.method;
  mean->leader += share * found.leader;
  mean->best += share * found.best;
}

}  // namespace

StatusOr<EnergyFound> FindEnergy(const std::string& spec, const EnergyCase& c) {
  StatusOr<Codec> codec = MakeCodec(spec);
  if (!codec.ok()) return codec.status();
  if (codec->carrier == nullptr || codec->carrier->unit() != CarrierUnit::kTensor) {
    return Status(gwInvalidArgument, spec + " is no carrier of whole tensors");
  }
  RandomStream random(c.seed);
  std::vector<std::byte> state;
  EnergyFound mean;
  for (int step = 0; step < c.settling_steps + c.steps; ++step) {
    const std::vector<Floats> grads = Draw(c, &random);
    std::vector<EncodeCase> cases;
    for (const Floats& grad : grads) {
      cases.push_back(CaseOf(grad, static_cast<uint32_t>(step), state));
    }
    CarrierRank rank = std::move(RunCarriers(*codec->carrier, cases, InOrder(c.ranks))[0]);
    GW_RETURN_IF_ERROR(std::move(rank.absorbed));
    if (step >= c.settling_steps) {
      AddShare(FoundBy(rank, SumOf(grads), grads[step % c.ranks]), 1.0 / c.steps, &mean);
    }
    state = std::move(rank.replicated);
  }
  return mean;
}

}  // namespace gradwire
