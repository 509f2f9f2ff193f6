#include "collectives/drivers/stream_driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/workspace.h"
#include "collectives/drivers/stream_ends.h"
#include "collectives/executor.h"
#include "collectives/verify/interpreter.h"
#include "collectives/verify/reference_work.h"

namespace gradwire {
namespace {

// All ranks of one run, with random floats in the input, in which the order of additions shows.
struct Ranks {
  Ranks(const AlgorithmRow& row, int n, int64_t elems, bool in_place) {
    for (int rank = 0; rank < n; ++rank) {
      schedules.push_back(std::make_unique<PreparedSchedule>(row.make(rank, n, /*root=*/n - 1)));
      const Schedule& schedule = schedules.back()->schedule;
      const ReferenceOp op = {.partition = EvenPartition(elems, schedule.logical_shards),
                              .dtype = DType::kFloat32,
                              .in_place = in_place};
      works.push_back(std::make_unique<ReferenceWork>(&schedule, op));
      RandomStream random(rank, /*stream=*/99);
      const View input = works.back()->input();
      for (int64_t i = 0; i < input.elems; ++i) {
        input.as<float>()[i] = static_cast<float>(random.Unit() - 0.5);
      }
    }
  }
  std::vector<std::byte> Output(int rank) {
    const View view = works[rank]->output();
    return {view.data, view.data + view.bytes()};
  }
  std::vector<std::unique_ptr<PreparedSchedule>> schedules;
  std::vector<std::unique_ptr<ReferenceWork>> works;
};

Status RunStream(Ranks* ranks) {
  return RunStreamEnds(static_cast<int>(ranks->works.size()), [&](int rank, MessageStream* stream) {
    const StreamPlan plan(&ranks->schedules[rank]->schedule);
    AlignedBuffer scratch;
    GW_RETURN_IF_ERROR(scratch.EnsureBytes(StreamScratchBytes(plan, *ranks->works[rank])));
    StreamRun run(&plan, ranks->works[rank].get(), scratch.bytes());
    while (!run.done()) GW_RETURN_IF_ERROR(run.IssueRound(stream));
    return Status::Ok();
  });
}

Status RunMessages(Ranks* ranks, uint64_t seed) {
  std::vector<InterpretedRank> interpreted;
  for (size_t r = 0; r < ranks->works.size(); ++r) {
    interpreted.push_back({ranks->schedules[r].get(), ranks->works[r].get()});
  }
  return Interpret(interpreted, seed);
}

TEST(StreamDriverTest, SameBytesAsMessagesForEveryAlgorithm) {
  for (const AlgorithmRow& row : Algorithms()) {
    for (int n : {1, 2, 3, 4, 7}) {
      for (bool in_place : {false, true}) {
        if (in_place && row.collective == Collective::kAllToAll) continue;
        const int64_t elems = n * 37;
        SCOPED_TRACE(row.name + " " + std::string(Name(row.collective)) + " of " +
                     std::to_string(n));
        Ranks stream(row, n, elems, in_place), messages(row, n, elems, in_place);
        const Status streamed = RunStream(&stream);
        ASSERT_TRUE(streamed.ok()) << streamed.ToString();
        const Status messaged = RunMessages(&messages, /*seed=*/n);
        ASSERT_TRUE(messaged.ok()) << messaged.ToString();
        for (int rank = 0; rank < n; ++rank) {
          ASSERT_EQ(stream.Output(rank), messages.Output(rank)) << "rank " << rank;
        }
      }
    }
  }
}

// Only writes down what is called.
struct CallLog final : StreamTransport {
  Status GroupStart() override { return calls.emplace_back("["), Status::Ok(); }
  Status Send(int peer, ConstBytes bytes) override {
    calls.push_back("send " + std::to_string(bytes.size) + " to " + std::to_string(peer));
    return Status::Ok();
  }
  Status Recv(int peer, Bytes bytes) override {
    calls.push_back("recv " + std::to_string(bytes.size) + " from " + std::to_string(peer));
    return Status::Ok();
  }
  Status GroupEnd() override { return calls.emplace_back("]"), Status::Ok(); }
  std::vector<std::string> calls;
};

TEST(StreamDriverTest, EmptyMessagesOpenNoGroup) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kBarrier, "dissemination");
  const Schedule schedule = row.make(0, 4, 0);
  const StreamPlan plan(&schedule);
  ReferenceWork work(&schedule, {.partition = EvenPartition(0, 1)});
  CallLog log;
  StreamRun run(&plan, &work, {});
  while (!run.done()) ASSERT_TRUE(run.IssueRound(&log).ok());
  EXPECT_TRUE(log.calls.empty());
}

// Fails its second send.
class FailingTransport final : public StreamTransport {
 public:
  Status GroupStart() override { return ++open_, Status::Ok(); }
  Status Send(int, ConstBytes) override {
    return ++sends_ == 2 ? Status(gwPeerLost, "gone") : Status::Ok();
  }
  Status Recv(int, Bytes) override { return Status::Ok(); }
  Status GroupEnd() override { return --open_, Status(gwInternalError, "a later error"); }
  int open() const { return open_; }

 private:
  int open_ = 0, sends_ = 0;
};

TEST(StreamDriverTest, AfterAnErrorTheGroupIsClosedAndTheFirstErrorKept) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "direct");
  const Schedule schedule = row.make(0, 4, 0);
  const StreamPlan plan(&schedule);
  ReferenceWork work(&schedule, {.partition = EvenPartition(64, 4)});
  AlignedBuffer scratch;
  ASSERT_TRUE(scratch.EnsureBytes(StreamScratchBytes(plan, work)).ok());
  FailingTransport transport;
  StreamRun run(&plan, &work, scratch.bytes());
  EXPECT_EQ(run.IssueRound(&transport).code(), gwPeerLost);
  EXPECT_EQ(transport.open(), 0);
  EXPECT_EQ(run.next_round(), 0);
}

// Slices of different lengths, so that a call shows whose it is.
TEST(StreamDriverTest, RoundsOfSlicesFollowEachOther) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "ring");
  const Schedule schedule = row.make(0, 2, 0);
  const StreamPlan plan(&schedule);
  ASSERT_EQ(plan.rounds.size(), 2u);
  std::vector<std::unique_ptr<ReferenceWork>> works;
  std::vector<AlignedBuffer> scratch(3);
  std::vector<StreamRun> slices;
  for (int64_t elems : {2, 4, 6}) {
    works.push_back(std::make_unique<ReferenceWork>(
        &schedule, ReferenceOp{.partition = EvenPartition(elems, 2), .dtype = DType::kInt8}));
    AlignedBuffer& mine = scratch[slices.size()];
    ASSERT_TRUE(mine.EnsureBytes(StreamScratchBytes(plan, *works.back())).ok());
    slices.emplace_back(&plan, works.back().get(), mine.bytes());
  }
  CallLog log;
  ASSERT_TRUE(IssueRounds(slices, &log).ok());
  std::vector<std::string> sends;
  for (const std::string& call : log.calls) {
    if (call.starts_with("send")) sends.push_back(call);
  }
  // By (slice + round, slice): of slice 0, 0 and 1, 1 and 2, 2.
  EXPECT_EQ(sends, (std::vector<std::string>{"send 1 to 1", "send 1 to 1", "send 2 to 1",
                                             "send 2 to 1", "send 3 to 1", "send 3 to 1"}));
}

TEST(StreamScratchTest, HoldsOneRoundOfAdditions) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "direct");
  const Schedule schedule = row.make(0, 4, 0);
  const StreamPlan plan(&schedule);
  ReferenceWork work(&schedule, {.partition = EvenPartition(40, 4), .dtype = DType::kFloat32});
  // Rank 0 adds three shards of 10 floats in one round, each in a slot of 64 bytes.
  EXPECT_EQ(StreamScratchBytes(plan, work), 3 * 64);
}

}  // namespace
}  // namespace gradwire
