#include "cli/train/lanes.h"

#include <algorithm>
#include <cstddef>

#include "runtime/spec/auto_spec.h"

namespace gradwire {

std::vector<int> Lanes::SpecsOf(int lane) const {
  std::vector<int> specs;
  for (int spec = 0; spec < std::ssize(of_spec); ++spec) {
    if (of_spec[static_cast<size_t>(spec)] == lane) specs.push_back(spec);
  }
  return specs;
}

Lanes LanesOf(std::span<const std::string> specs) {
  const bool any_fixed = !std::all_of(specs.begin(), specs.end(), IsAutoSpec);
  Lanes lanes = {.count = any_fixed ? 1 : 0};
  for (const std::string& spec : specs) {
    lanes.of_spec.push_back(IsAutoSpec(spec) ? lanes.count++ : 0);
  }
  return lanes;
}

}  // namespace gradwire
