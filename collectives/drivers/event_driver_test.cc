// EventDriver over loopback, all ranks in one thread: right results for every algorithm of the
// registry, and every broken rule found.
#include "collectives/drivers/event_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "collectives/drivers/driver_ends.h"
#include "collectives/schedule.h"

namespace gradwire {
namespace {

int64_t ValueOf(int rank, int64_t i) { return (int64_t{1} << rank) * 1000003 + 7 * i + rank; }

// What the whole output of `rank` must hold at i, -1: anything.
int64_t Expected(const DriverCase& c, const Partition& p, int rank, int64_t i) {
  const auto shard_of = [&](int64_t at) {
    return static_cast<int>(std::upper_bound(p.begin.begin(), p.begin.end(), at) -
                            p.begin.begin()) -
           1;
  };
  int64_t sum = 0;
  for (int r = 0; r < c.n; ++r) sum += ValueOf(r, i);
  switch (c.row->collective) {
    case Collective::kAllReduce: return sum;
    case Collective::kReduce: return rank == c.root ? sum : -1;
    case Collective::kBroadcast: return ValueOf(c.root, i);
    case Collective::kAllGather: return ValueOf(shard_of(i), i);
    case Collective::kReduceScatter: return shard_of(i) == rank ? sum : -1;
    case Collective::kAllToAll: {
      const int from = shard_of(i);
      return ValueOf(from, p.begin[rank] + i - p.begin[from]);
    }
    case Collective::kBarrier: return -1;
  }
  return -1;
}

void FillInputs(const DriverCase& c, Ends* ends) {
  for (int rank = 0; rank < c.n; ++rank) {
    const View input = (*ends)[rank].work->input();
    for (int64_t i = 0; i < input.elems; ++i) input.as<int64_t>()[i] = ValueOf(rank, i);
  }
}

void CheckOutputs(const DriverCase& c, Ends* ends) {
  for (int rank = 0; rank < c.n; ++rank) {
    const View output = (*ends)[rank].work->output();
    for (int64_t i = 0; i < output.elems; ++i) {
      const int64_t expected = Expected(c, ends->partition(), rank, i);
      if (expected < 0) continue;
      ASSERT_EQ(output.as<int64_t>()[i], expected) << "rank " << rank << " at " << i;
    }
  }
}

// What was sent is what the schedule lists.
void CheckRecord(const DriverCase& c, Ends* ends) {
  using Sent = std::tuple<int, int32_t, int64_t>;
  for (int rank = 0; rank < c.n; ++rank) {
    End& end = (*ends)[rank];
    std::vector<Sent> listed, sent;
    for (const Step& step : end.schedule->schedule.steps) {
      if (step.kind != StepKind::kSend) continue;
      listed.emplace_back(step.peer, step.message, end.work->MessageBytes(step.src));
    }
    for (const SentMessage& m : end.record.messages()) sent.emplace_back(m.dst, m.message, m.bytes);
    std::sort(listed.begin(), listed.end());
    std::sort(sent.begin(), sent.end());
    ASSERT_EQ(sent, listed) << "rank " << rank;
  }
}

void CheckFinished(const DriverCase& c, Ends* ends) {
  for (int rank = 0; rank < c.n; ++rank) {
    EventDriver& driver = *(*ends)[rank].driver;
    const std::optional<FinishedRun> run = driver.TakeFinished();
    ASSERT_TRUE(run.has_value()) << "rank " << rank << ": " << driver.DescribeWaiting();
    ASSERT_TRUE(run->status.ok()) << run->status.ToString();
    ASSERT_FALSE(driver.TakeProtocolError().has_value());
    ASSERT_TRUE(driver.Quiet() && driver.idle());
  }
}

// Ranks start one after the other, in a drawn order with polls between: most frames come early.
void CheckExact(const DriverCase& c) {
  SCOPED_TRACE(c.ToString());
  Ends ends(c);
  FillInputs(c, &ends);
  RandomStream random(c.seed);
  std::vector<bool> started(c.n);
  for (int left = c.n; left > 0;) {
    const int rank = static_cast<int>(random.Below(c.n));
    if (!started[rank]) ends.Start(rank), --left;
    started[rank] = true;
    if (random.Below(2) == 0) ends.PollUntilStill();
  }
  ends.PollUntilStill();
  ASSERT_NO_FATAL_FAILURE(CheckFinished(c, &ends));
  ASSERT_NO_FATAL_FAILURE(CheckOutputs(c, &ends));
  ASSERT_NO_FATAL_FAILURE(CheckRecord(c, &ends));
}

TEST(EventDriver, EveryAlgorithmIsExact) {
  uint64_t seed = 0;
  for (const AlgorithmRow& row : Algorithms()) {
    const bool equal_shards = row.collective == Collective::kAllToAll;
    for (int n : {1, 2, 3, 4, 5, 7}) {
      for (int64_t elems : {int64_t{0}, int64_t{1}, int64_t{n} * 50, int64_t{417}}) {
        if (equal_shards && elems % n != 0) continue;
        DriverCase c = {.row = &row, .n = n, .root = n / 2, .elems = elems, .seed = ++seed};
        ASSERT_NO_FATAL_FAILURE(CheckExact(c));
        c.faulty = true;
        c.plan = {.delay = 0.3, .full = 0.2, .late_sent = 0.3};
        ASSERT_NO_FATAL_FAILURE(CheckExact(c));
      }
    }
  }
}

TEST(EventDriver, CopiesEarlyFramesAsideAndConsumesThemOnStart) {
  const DriverCase c = {.row = &Row(Collective::kAllReduce, "direct"), .n = 2, .elems = 100};
  Ends ends(c);
  FillInputs(c, &ends);
  ends.Start(0);
  ends.PollUntilStill();
  EXPECT_EQ(ends[1].driver->counters().staged_bytes, 50 * 8);
  EXPECT_FALSE(ends[1].driver->TakeFinished().has_value());
  ends.Start(1);
  ends.PollUntilStill();
  CheckFinished(c, &ends);
  CheckOutputs(c, &ends);
}

// One rank's runs of a slice, one after the other; each has inputs of its own.
class ManyRuns {
 public:
  ManyRuns(const DriverCase& c, Ends* ends, int rank) : case_(c), ends_(*ends), rank_(rank) {}

  int ended() const { return ended_; }
  bool running() const { return started_ > ended_; }

  void Start() {
    const View input = ends_[rank_].work->input();
    for (int64_t i = 0; i < input.elems; ++i) input.as<int64_t>()[i] = ValueOf(rank_, i) + started_;
    ends_.Start(rank_, kSignature, {.run = static_cast<uint8_t>(started_++)});
  }
  void Poll() {
    EventDriver& driver = *ends_[rank_].driver;
    driver.Poll();
    ASSERT_FALSE(driver.TakeProtocolError().has_value()) << "rank " << rank_ << ", run " << ended_;
    const std::optional<FinishedRun> run = driver.TakeFinished();
    if (!run.has_value()) return;
    ASSERT_TRUE(run->status.ok()) << run->status.ToString();
    ASSERT_EQ(run->key.run, ended_ % 256);
    const View output = ends_[rank_].work->output();
    for (int64_t i = 0; i < output.elems; ++i) {
      const int64_t sum = Expected(case_, ends_.partition(), rank_, i) + case_.n * ended_;
      ASSERT_EQ(output.as<int64_t>()[i], sum) << "rank " << rank_ << ", run " << ended_;
    }
    ++ended_;
  }

 private:
  const DriverCase& case_;
  Ends& ends_;
  const int rank_;
  int started_ = 0, ended_ = 0;
};

// More than the number of a run on the wire can tell apart. Rank 1 begins each late, when frames of
// the others have been kept for it.
TEST(EventDriver, TellsTheRunsOfASliceApart) {
  constexpr int kRuns = 600, kLatePolls = 5, kMostPolls = 1000 * kRuns;
  for (const char* name : {"direct", "ring"}) {
    const DriverCase c = {.row = &Row(Collective::kAllReduce, name),
                          .n = 3,
                          .elems = 30,
                          .plan = {.delay = 0.3, .full = 0.2, .late_sent = 0.3},
                          .faulty = true};
    SCOPED_TRACE(c.ToString());
    Ends ends(c);
    std::vector<ManyRuns> ranks;
    for (int rank = 0; rank < c.n; ++rank) ranks.emplace_back(c, &ends, rank);
    const auto least = [&] {
      return std::min_element(ranks.begin(), ranks.end(),
                              [](const auto& a, const auto& b) { return a.ended() < b.ended(); })
          ->ended();
    };
    for (int poll = 0; least() < kRuns; ++poll) {
      ASSERT_LT(poll, kMostPolls) << ends[0].driver->DescribeWaiting();
      for (int rank = 0; rank < c.n; ++rank) {
        const bool begins = rank != 1 || poll % kLatePolls == 0;
        if (begins && !ranks[rank].running() && ranks[rank].ended() < kRuns) ranks[rank].Start();
        ASSERT_NO_FATAL_FAILURE(ranks[rank].Poll());
      }
    }
    EXPECT_GT(ends[1].driver->counters().staged_bytes, kRuns * 80);
  }
}

TEST(EventDriver, CancelEndsRunsAndBecomesQuiet) {
  DriverCase c = {
      .row = &Row(Collective::kAllReduce, "direct"), .n = 2, .elems = 400, .faulty = true};
  c.plan = {.delay = 0.5, .delay_polls = 20, .late_sent = 1};
  Ends ends(c);
  ends.Start(0);
  ends[0].driver->Poll();
  ASSERT_FALSE(ends[0].driver->Quiet());
  ends[0].driver->CancelAll(Status(gwAborted, "enough"));
  EXPECT_TRUE(ends[0].driver->idle());
  const std::optional<FinishedRun> run = ends[0].driver->TakeFinished();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->status.code(), gwAborted);
  ends.PollUntilStill();
  EXPECT_TRUE(ends[0].driver->Quiet());
  // The next turn is as if nothing had been; the old turn's frames at rank 1 are dropped.
  for (int rank = 0; rank < 2; ++rank) ends[rank].driver->BeginTurn(1);
  FillInputs(c, &ends);
  for (int rank = 0; rank < 2; ++rank) ends.Start(rank);
  ends.PollUntilStill();
  CheckFinished(c, &ends);
  CheckOutputs(c, &ends);
}

// A local step that fails while receives are outstanding: nobody may ever send what they await.
TEST(EventDriver, AFailedStepEndsTheRunAtOnce) {
  const StatusOr<const AlgorithmRow*> row =
      FindAlgorithm(Collective::kAllReduce, "two_shot", /*encoded=*/true);
  const DriverCase c = {.row = *row, .n = 3, .elems = 60};
  Ends ends(c);
  class Failing final : public SliceWork {
   public:
    explicit Failing(SliceWork* inner) : inner_(inner) {}
    Bytes Memory(const Region& r) override { return inner_->Memory(r); }
    int64_t MessageBytes(const Region& r) const override { return inner_->MessageBytes(r); }
    void Combine(const Step&, int64_t, ConstBytes) override {}
    StatusOr<bool> Compute(const Step&, int64_t*) override {
      return Status(gwDataCorrupt, "not a payload");
    }

   private:
    SliceWork* const inner_;  // the test's
  } failing(ends[0].work.get());
  ends[0].driver->Start(
      {.key = {}, .schedule = ends[0].schedule.get(), .work = &failing, .signature = kSignature});
  ends[0].driver->Poll();
  const std::optional<FinishedRun> run = ends[0].driver->TakeFinished();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->status.code(), gwDataCorrupt);
  EXPECT_TRUE(ends[0].driver->idle());
}

}  // namespace
}  // namespace gradwire
