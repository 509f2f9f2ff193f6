// What the files of the transport suite share.
#ifndef GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_
#define GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
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

// Random messages between random pairs, sent and polled in random order until all have arrived.
inline testing::AssertionResult RandomTraffic(World* world, uint64_t seed) {
  RandomStream random(seed);
  const int n = world->size();
  const uint64_t most = world->ends[0]->caps().max_fragment_bytes;
  std::vector<int64_t> expected(n, 0);
  for (uint32_t message = 0; message < 40; ++message) {
    const int src = static_cast<int>(random.Below(n));
    const int dst = static_cast<int>((src + 1 + random.Below(n - 1)) % n);
    const uint64_t bytes = random.Below(3) == 0 ? random.Below(3 * most) : random.Below(200);
    world->rank(src).Send(dst, {.op_seq = message % 3, .message = message},
                          static_cast<int64_t>(bytes));
    ++expected[dst];
    Rank& rank = world->rank(static_cast<int>(random.Below(n)));
    if (random.Below(2) == 0) rank.Pump();
    if (random.Below(4) == 0) rank.PollOnly();
  }
  testing::AssertionResult result = Exchange(world, expected);
  world->Settle(3);
  if (result && world->failure().empty()) return result;
  return testing::AssertionFailure()
         << "seed " << seed << ": " << result.message() << world->failure();
}

inline std::string KindName(const testing::TestParamInfo<TransportKind>& info) {
  return info.param.name;
}

}  // namespace gradwire::conformance

#endif  // GRADWIRE_TESTS_CONFORMANCE_TRANSPORT_FIXTURE_H_
