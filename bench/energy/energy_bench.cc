// Energy of the mean gradient that top-k finds by either agreement, against other choices of as
// many elements.
//
//   bazel run //bench/energy:energy_bench
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/energy/energy.h"

namespace gradwire {
namespace {

void PrintHead(const EnergyCase& c) {
  fmt::print("# {} ranks, {} elements, log-normal scales times Student's t of 3 degrees; ", c.ranks,
             c.elems);
  fmt::print("means of {} steps after {}, seed {}\n", c.steps, c.settling_steps, c.seed);
  fmt::print("# {:<36} {:>11} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8}\n", "spec", "correlation",
             "values", "bits", "energy", "leader", "best", "x_leader");
}

int Run(const std::vector<std::string>& specs, EnergyCase c) {
  PrintHead(c);
  for (const std::string& spec : specs) {
    for (double correlation : {0.0, 0.3, 0.7}) {
      c.correlation = correlation;
      const StatusOr<EnergyFound> found = FindEnergy(spec, c);
      if (!found.ok()) {
        fmt::print(stderr, "{}\n", found.status().ToString());
        return 1;
      }
      fmt::print("{:<38} {:>11} {:>6.0f} {:>6.2f} {:>6.3f} {:>6.3f} {:>6.3f} {:>8.2f}\n", spec,
                 correlation, found->values, found->bits, found->method, found->leader, found->best,
                 found->method / found->leader);
    }
  }
  return 0;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::EnergyCase c;
  std::vector<std::string> specs = {"topk(density=0.01)", "topk(density=0.01,agreement=owners)"};
  CLI::App app("Energy of the mean gradient that a sparse method finds");
  app.add_option("-x", specs, "specs of sparse methods");
  app.add_option("--ranks", c.ranks)->capture_default_str();
  app.add_option("--elems", c.elems)->capture_default_str();
  app.add_option("--steps", c.steps)->capture_default_str();
  app.add_option("--seed", c.seed)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return gradwire::Run(specs, c);
}
