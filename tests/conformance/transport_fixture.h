// What the files of the transport suite share.
#ifndef GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_
#define GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/conformance/transport_world.h"

namespace gradwire::conformance {

// Longer than any test may take: a lost wake-up shows.
inline constexpr int64_t kLongNs = 120 * kNsPerSecond;

class TransportTest : public testing::TestWithParam<TransportKind> {
 protected:
  // Null: skipped, or failed already.
  std::unique_ptr<World> Make(int world_size) {
    auto world = MakeWorld(GetParam(), world_size);
    if (world.ok()) return std::move(*world);
    const std::string why = world.status().ToString();
    if (GetParam().may_skip && world.status().code() == gwTransportUnavailable) {
      [&] { GTEST_SKIP() << why; }();
    } else {
      ADD_FAILURE() << why;
    }
    return nullptr;
  }
};

#define MAKE_WORLD(world, world_size)                      \
  std::unique_ptr<World> world##_owner = Make(world_size); \
  if (world##_owner == nullptr) return;                    \
  World& world = *world##_owner

// Until `messages` have arrived at every rank and every token has come back.
inline testing::AssertionResult Exchange(World* world, const std::vector<int64_t>& messages) {
  const bool done = world->RunUntil([&] {
    for (int r = 0; r < world->size(); ++r) {
      if (!world->rank(r).AllSent() || world->rank(r).received() < messages[r]) return false;
    }
    return true;
  });
  if (done && world->failure().empty()) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure() << world->failure();
  for (int r = 0; r < world->size(); ++r) {
    failure << "\nrank " << r << ": received " << world->rank(r).received() << " of " << messages[r]
            << " messages, " << world->rank(r).outstanding() << " tokens outstanding, "
            << (world->rank(r).AllAccepted() ? "nothing" : "something") << " left to send";
  }
  return failure;
}

inline std::string KindName(const testing::TestParamInfo<TransportKind>& info) {
  return info.param.name;
}

}  // namespace gradwire::conformance

#endif  // GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_
