#include "runtime/controller/probe_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

using testing::ElementsAre;

const std::shared_ptr<const AutoSpec>& Spec() {
  static const auto spec = std::make_shared<const AutoSpec>(*MakeAutoSpec("auto"));
  return spec;
}

struct Tensor {
  explicit Tensor(int64_t elems) {
    state.shape = {elems};
    state.elems = elems;
    state.TakeLadder(Spec(), 2);
  }
  TensorState state;
};

// Of a step with one submission.
std::optional<ProbeTicket> Offer(ProbeSchedule* schedule, const Tensor& tensor, uint16_t turn,
                                 ProbePace pace, int64_t now_ns) {
  schedule->BeginStep(turn);
  return schedule->Offer(tensor.state, pace, now_ns);
}

TEST(ProbeSchedule, TriesOneRungAStepTheLightestFirst) {
  const Tensor tensor(4096);
  ProbeSchedule schedule;
  ASSERT_FALSE(Offer(&schedule, tensor, 1, ProbePace::kEveryStep, 0))
      << "none is known to be large";
  std::vector<int> rungs;
  std::vector<int64_t> rounds;
  for (uint16_t turn = 2; turn < 8; ++turn) {
    const std::optional<ProbeTicket> ticket =
        Offer(&schedule, tensor, turn, ProbePace::kEveryStep, 0);
    ASSERT_TRUE(ticket) << turn;
    rungs.push_back(ticket->rung);
    rounds.push_back(ticket->round);
    schedule.Take();
  }
  EXPECT_FALSE(schedule.Offer(tensor.state, ProbePace::kEveryStep, 0)) << "of the same step";
  EXPECT_THAT(rungs, ElementsAre(4, 3, 2, 1, 4, 3));
  EXPECT_THAT(rounds, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_EQ(schedule.count(), 6);
  schedule.BeginAnew();
  EXPECT_EQ(schedule.count(), 0);
}

TEST(ProbeSchedule, OffersAgainWhatWasNotTaken) {
  const Tensor tensor(4096);
  ProbeSchedule schedule;
  (void)Offer(&schedule, tensor, 1, ProbePace::kEveryStep, 0);
  ASSERT_TRUE(Offer(&schedule, tensor, 2, ProbePace::kEveryStep, 0));
  EXPECT_TRUE(schedule.Offer(tensor.state, ProbePace::kEveryStep, 0));
  EXPECT_EQ(schedule.count(), 0);
}

// What can take no codec is in nobody's way.
TEST(ProbeSchedule, TakesTheLargestTensorThatItCanTry) {
  const Tensor small(1024), large(4096);
  TensorState excluded;
  excluded.shape = {8192}, excluded.elems = 8192;
  excluded.TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec("auto(min_numel=1000000)")),
                      2);
  ProbeSchedule schedule;
  for (uint16_t turn = 1; turn < 4; ++turn) {
    schedule.BeginStep(turn);
    const auto offer = [&](const TensorState& tensor) {
      return schedule.Offer(tensor, ProbePace::kEveryStep, 0).has_value();
    };
    EXPECT_FALSE(offer(excluded)) << turn;
    EXPECT_FALSE(offer(small.state)) << turn;
    EXPECT_EQ(offer(large.state), turn > 1) << turn;
  }
}

TEST(ProbeSchedule, SeldomIsOnceInTwentyStepsAndASmallPartOfTheTime) {
  constexpr int64_t kBeginNs = 1'000'000, kProbeNs = 10, kNextNs = kBeginNs + 500 * kProbeNs;
  const Tensor tensor(4096);
  ProbeSchedule schedule;
  const auto offer = [&](uint16_t turn, int64_t now_ns) {
    return Offer(&schedule, tensor, turn, ProbePace::kSeldom, now_ns);
  };
  ASSERT_FALSE(offer(19, kBeginNs));
  const std::optional<ProbeTicket> ticket = offer(65530, kBeginNs);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->begin_ns, kBeginNs);
  schedule.Take();
  schedule.Done(*ticket, kBeginNs + kProbeNs);
  EXPECT_FALSE(offer(13, kNextNs)) << "19 later";
  EXPECT_FALSE(offer(14, kNextNs - 1));
  EXPECT_TRUE(offer(14, kNextNs));
}

}  // namespace
}  // namespace gradwire
