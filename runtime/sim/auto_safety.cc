#include "runtime/sim/auto_safety.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

constexpr size_t kWarmUp = 60;
constexpr size_t kWindow = 500;  // steps in which `auto` may not be slower
constexpr int kRounds = 48;      // in which each plan is tried

// Between the two, evenly in its logarithm.
double Draw(std::mt19937_64* random, double low, double high) {
  return low * std::pow(high / low, std::uniform_real_distribution<>()(*random));
}

}  // namespace

SimWorld DrawAutoWorld(uint64_t seed) {
  std::mt19937_64 random(seed);
  SimWorld world = {.seed = seed,
                    .world_size = 2 + static_cast<int>(random() % 3),
                    .gbit_per_s = Draw(&random, 0.1, 100),
                    .latency_ns = static_cast<int64_t>(Draw(&random, 5e3, 5e5)),
                    .codec_ns_per_elem = Draw(&random, 0.1, 4),
                    .elems = {8 * 1024, 48 * 1024, 24 * 1024, 2 * 1024},
                    .compute_noise = Draw(&random, 0.03, 0.1)};
  const double bytes =
      4.0 * static_cast<double>(std::reduce(world.elems.begin(), world.elems.end()));
  world.compute_ns = static_cast<int64_t>(bytes * 8 / world.gbit_per_s * Draw(&random, 0.1, 5));
  return world;
}

std::string SafetyRow::Text() const {
  return fmt::format(
      "{}: {} ranks, {:.3g} Gbit/s, {:.3g} us, computing {:.3g} us, codec {:.3g} ns an element, "
      "shared {:.2f}, drift {:.3f}, flips {}: {:.4f} of the speed of none from step {}",
      world.seed, world.world_size, world.gbit_per_s,
      static_cast<double>(world.latency_ns) / kNsPerUs,
      static_cast<double>(world.compute_ns) / kNsPerUs, world.codec_ns_per_elem, world.shared_cores,
      world.drift, world.flip, least_speed, least_from);
}

SafetyRow AskSafety(uint64_t seed, int steps) {
  SafetyRow row = {.world = DrawAutoWorld(seed), .least_speed = INFINITY};
  std::mt19937_64 random(~seed);
  row.world.steps = steps;
  row.world.wire_noise = Draw(&random, 0.03, 0.1);
  row.world.drift = Draw(&random, 0.01, 0.1);
  row.world.flip = random() % 2 == 0 ? 0.3 : 0.0;
  row.world.shared_cores = std::uniform_real_distribution<>()(random);
  const SimTrained trained = TrainAuto(row.world);
  row.decisions = trained.decisions;
  const Plan none(row.world.elems.size(), kNoneRung);
  std::set<Plan> plans(trained.plans.begin(), trained.plans.end());
  plans.insert(none);
  const std::map<Plan, double> times =
      CalmNs(row.world, std::vector<Plan>(plans.begin(), plans.end()), kRounds);
  const double none_ns = times.at(none) * kWindow;
  for (size_t begin = kWarmUp; begin + kWindow <= trained.plans.size(); ++begin) {
    double sum_ns = 0;
    for (size_t i = begin; i < begin + kWindow; ++i) sum_ns += times.at(trained.plans[i]);
    const double speed = none_ns / sum_ns;
    if (speed >= row.least_speed) continue;
    row.least_speed = speed;
    row.least_from = begin;
  }
  return row;
}

}  // namespace gradwire
