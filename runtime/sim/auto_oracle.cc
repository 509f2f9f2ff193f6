#include "runtime/sim/auto_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

constexpr int kSteps = 400;
constexpr size_t kWarmUp = 60;
constexpr size_t kLastSteps = 100;
constexpr double kClearlyBest = 1.02;
// Each plan is tried in so many steps, and those that seem best then in more: one step varies by a
// tenth, and the shortest of 1,024 single ones is that of a plan with luck.
constexpr int kRoughRounds = 4, kRounds = 32;
constexpr size_t kFinalists = 16;
// Tensors are so much smaller than they are meant to be, and each element takes so much longer: the
// bytes of all ranks go through one processor.
constexpr double kShrunk = 8;

SimWorld DrawWorld(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>()(random));
  };
  SimWorld world = {.seed = seed,
                    .world_size = 2 + static_cast<int>(random() % 7),
                    .gbit_per_s = between(0.1, 100) / kShrunk,
                    .latency_ns = static_cast<int64_t>(between(5e3, 5e6)),
                    .codec_ns_per_elem = between(0.1, 4) * kShrunk,
                    .slice_elems = 4096,
                    // One that adapts is another after each plan: a plan's time would depend on
                    // what ran before it, and no truth be known.
                    .window = 4,
                    .rungs = {0, 1, 2, 4},
                    .steps = kSteps,
                    .compute_noise = between(0.03, 0.1),
                    .wire_noise = between(0.03, 0.1),
                    .drift = between(0.01, 0.1),
                    .flip = random() % 2 == 0 ? 0.3 : 0.0,
                    .shared_cores = std::uniform_real_distribution<>()(random)};
  for (auto tensors = 4 + random() % 2; tensors > 0; --tensors)
    world.elems.push_back(static_cast<int64_t>(between(2e3, 2e4)));
  const double bytes =
      4.0 * static_cast<double>(std::reduce(world.elems.begin(), world.elems.end()));
  world.compute_ns = static_cast<int64_t>(bytes * 8 / world.gbit_per_s * between(0.1, 5));
  return world;
}

std::vector<Plan> AllPlans(size_t tensors, size_t rungs) {
  std::vector<Plan> plans = {{}};
  for (size_t t = 0; t < tensors; ++t) {
    std::vector<Plan> longer;
    for (const Plan& plan : plans) {
      for (size_t rung = 0; rung < rungs; ++rung) {
        longer.push_back(plan);
        longer.back().push_back(static_cast<uint8_t>(rung));
      }
    }
    plans = std::move(longer);
  }
  return plans;
}

// Of `plans` and of those that are best of all.
std::map<Plan, double> TryAll(const SimWorld& world, std::vector<Plan> plans) {
  const std::map<Plan, double> rough =
      CalmNs(world, AllPlans(world.elems.size(), world.rungs.size()), kRoughRounds);
  std::vector<std::pair<double, Plan>> by_time;
  for (const auto& [plan, ns] : rough) by_time.emplace_back(ns, plan);
  std::sort(by_time.begin(), by_time.end());
  for (size_t i = 0; i < kFinalists; ++i) plans.push_back(by_time[i].second);
  std::sort(plans.begin(), plans.end());
  plans.erase(std::unique(plans.begin(), plans.end()), plans.end());
  return CalmNs(world, plans, kRounds);
}

// Of the mean step over `best_ns`.
double Regret(const std::map<Plan, double>& times, std::span<const Plan> followed, double best_ns) {
  double sum_ns = 0;
  for (const Plan& plan : followed) sum_ns += times.at(plan);
  return sum_ns / static_cast<double>(followed.size()) / best_ns - 1;
}

// Another plan was followed in most of the steps, though this one is best by far.
bool Misses(const std::map<Plan, double>& times, std::span<const Plan> followed, const Plan& plan) {
  const bool is_clear = std::all_of(times.begin(), times.end(), [&](const auto& entry) {
    return entry.first == plan || entry.second > kClearlyBest * times.at(plan);
  });
  const auto hits = std::count(followed.begin(), followed.end(), plan);
  return is_clear && 2 * hits < std::ssize(followed);
}

}  // namespace

std::string OracleRow::Text() const {
  return fmt::format(
      "{},{},{:.3g},{:.3g},{:.3g},{:.3g},{:.2f},{},{:.4g},{:.4g},{:.4g},{},{:.4f},{:.4f},{:.4f}",
      world.seed, world.world_size, world.gbit_per_s * kShrunk,
      static_cast<double>(world.latency_ns) / kNsPerUs,
      static_cast<double>(world.compute_ns) / kNsPerUs, world.codec_ns_per_elem / kShrunk,
      world.shared_cores, world.elems.size(), none_ns / kNsPerUs, bf16_ns / kNsPerUs,
      best_ns / kNsPerUs, fmt::join(best, ""), last_regret, whole_regret, none_regret);
}

OracleRow AskOracle(uint64_t seed) {
  OracleRow row = {.world = DrawWorld(seed)};
  const SimTrained trained = TrainAuto(row.world);
  const size_t tensors = row.world.elems.size();
  const Plan none(tensors, 0), bf16(tensors, 1);
  std::vector<Plan> plans = trained.plans;
  plans.insert(plans.end(), {none, bf16});
  const std::map<Plan, double> times = TryAll(row.world, std::move(plans));
  const auto best = std::min_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  row.best = best->first;
  row.best_ns = best->second;
  row.none_ns = times.at(none);
  row.bf16_ns = times.at(bf16);
  const std::span<const Plan> all(trained.plans);
  const std::span<const Plan> last = all.last(kLastSteps);
  row.last_regret = Regret(times, last, row.best_ns);
  row.whole_regret = Regret(times, all, row.best_ns);
  row.none_regret = Regret(times, all.subspan(kWarmUp), row.none_ns);
  row.misses_baseline = Misses(times, last, none) || Misses(times, last, bf16);
  row.decisions = trained.decisions;
  return row;
}

}  // namespace gradwire
