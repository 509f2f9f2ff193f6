#include "bench/energy/energy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"
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

// What a step ends with on all ranks.
struct Result {
  Floats out;
  int64_t values = 0, bytes = 0;
};

// Of the gradients of a step.
using Step = std::function<StatusOr<Result>(const std::vector<Floats>&)>;

// Keeps the state from step to step.
class CarrierSteps {
 public:
  explicit CarrierSteps(std::shared_ptr<const CarrierMethod> method) : method_(std::move(method)) {}

  StatusOr<Result> operator()(const std::vector<Floats>& grads) {
    std::vector<EncodeCase> cases;
    for (const Floats& grad : grads) {
      EncodeCase c{.dither = {.step = step_},
                   .shape = {static_cast<int64_t>(grad.size())},
                   .replicated = state_};
      c.grad.resize(4 * grad.size());
      std::memcpy(c.grad.data(), grad.data(), c.grad.size());
      cases.push_back(std::move(c));
    }
    ++step_;
    const auto ranks = RunCarriers(*method_, cases, InOrder(static_cast<int>(grads.size())));
    if (!ranks[0].absorbed.ok()) return ranks[0].absorbed;
    state_ = ranks[0].replicated;
    Result result = {.out = Floats(grads[0].size()),
                     .values = static_cast<int64_t>(ranks[0].filled.back().size()) / 4};
    std::memcpy(result.out.data(), ranks[0].out.data(), ranks[0].out.size());
    for (const auto& round : ranks[0].filled) {
      result.bytes += static_cast<int64_t>(round.size());
    }
    return result;
  }

 private:
  std::shared_ptr<const CarrierMethod> method_;
  uint32_t step_ = 0;
  std::vector<std::byte> state_;
};

// As two_shot does it: the owner of a block adds what the others sent to its own contribution, and
// all get what it sends of the sum.
StatusOr<Result> TwoShot(const PayloadCodec& codec, std::vector<Floats> grads) {
  const auto elems = static_cast<int64_t>(grads[0].size());
  const int64_t block = codec.traits().quantum_elems;
  Result result = {.out = Floats(grads[0].size()), .bytes = codec.MaxBytes(elems)};
  std::vector<std::byte> payload(static_cast<size_t>(codec.MaxBytes(block)));
  AlignedBuffer workspace;
  GW_RETURN_IF_ERROR(workspace.EnsureBytes(codec.WorkspaceBytes(block)));
  const auto encode = [&](ConstView from, Bytes to) {
    return codec.Encode({.grad = from, .out = to, .workspace = workspace.bytes()});
  };
  for (int64_t first = 0; first < elems; first += block) {
    const int64_t count = std::min(block, elems - first);
    const Bytes bytes = {payload.data(), codec.MaxBytes(count)};
    const size_t owner = static_cast<size_t>(first / block) % grads.size();
    const View sum = FloatView(grads[owner].data() + first, count);
    for (size_t r = 0; r < grads.size(); ++r) {
      if (r == owner) continue;
      const ConstView grad = FloatView(grads[r].data() + first, count);
      GW_RETURN_IF_ERROR(encode(grad, bytes));
      GW_RETURN_IF_ERROR(codec.DecodeAdd(bytes, sum, nullptr));
    }
    GW_RETURN_IF_ERROR(encode(sum, bytes));
    const View out = FloatView(result.out.data() + first, count);
    GW_RETURN_IF_ERROR(codec.Decode(bytes, out, 1.0f, nullptr));
  }
  result.values =
      std::count_if(result.out.begin(), result.out.end(), [](float v) { return v != 0; });
  return result;
}

Step StepOf(const Codec& codec) {
  if (codec.payload == nullptr) return CarrierSteps(codec.carrier);
  return [payload = codec.payload](const std::vector<Floats>& grads) {
    return TwoShot(*payload, grads);
  };
}

// All that is not missing. Where the sum is exact, the energy of what is sent.
double EnergyIn(const Floats& out, const Floats& sum) {
  double missing = 0;
  for (size_t i = 0; i < sum.size(); ++i) missing += std::pow(double{out[i]} - sum[i], 2);
  return EnergyOf(sum) - missing;
}

EnergyFound FoundBy(const Result& result, const Floats& sum, const Floats& leader) {
  const double all = EnergyOf(sum);
  return {.values = static_cast<double>(result.values),
          .bits = 8.0 * static_cast<double>(result.bytes) / static_cast<double>(sum.size()),
          .method = EnergyIn(result.out, sum) / all,
          .leader = EnergyAtLargest(sum, leader, result.values) / all,
          .best = EnergyAtLargest(sum, sum, result.values) / all};
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
  RandomStream random(c.seed);
  const Step run = StepOf(*codec);
  EnergyFound mean;
  for (int step = 0; step < c.settling_steps + c.steps; ++step) {
    const std::vector<Floats> grads = Draw(c, &random);
    const StatusOr<Result> result = run(grads);
    if (!result.ok()) return result.status();
    if (step < c.settling_steps) continue;
    AddShare(FoundBy(*result, SumOf(grads), grads[step % c.ranks]), 1.0 / c.steps, &mean);
  }
  return mean;
}

}  // namespace gradwire
