#include "collectives/drivers/stream_driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/workspace.h"
#include "collectives/executor.h"
#include "collectives/verify/interpreter.h"
#include "collectives/verify/reference_work.h"

namespace gradwire {
namespace {

// Threads as ranks. A group's receives are posted when it ends, as NCCL's are.
class Mesh {
 public:
  void Put(int from, int to, ConstBytes bytes) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].emplace_back(bytes.data, bytes.data + bytes.size);
    arrived_.notify_all();
  }
  Status Take(int from, int to, Bytes into) {
    std::unique_lock lock(mutex_);
    std::deque<std::vector<std::byte>>& box = boxes_[{from, to}];
    // Only a defect lets it come to this.
    if (!arrived_.wait_for(lock, std::chrono::seconds(60), [&] { return !box.empty(); })) {
      return Status(gwTimeout, "nobody sends");
    }
    const std::vector<std::byte> message = std::move(box.front());
    box.pop_front();
    if (static_cast<int64_t>(message.size()) != into.size) {
      return Status(gwMismatch, "a message of another size");
    }
    std::memcpy(into.data, message.data(), message.size());
    return Status::Ok();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

class ThreadTransport final : public StreamTransport {
 public:
  ThreadTransport(Mesh* mesh, int rank) : mesh_(mesh), rank_(rank) {}
  Status GroupStart() override {
    if (open_) return Status(gwInvalidUsage, "a group in a group");
    open_ = true;
    ++groups_;
    return Status::Ok();
  }
  Status Send(int peer, ConstBytes bytes) override {
    if (!open_ || bytes.empty()) return Status(gwInvalidUsage, "no group, or nothing to send");
    sends_.emplace_back(peer, bytes);
    return Status::Ok();
  }
  Status Recv(int peer, Bytes bytes) override {
    if (!open_ || bytes.empty()) return Status(gwInvalidUsage, "no group, or nothing to receive");
    recvs_.emplace_back(peer, bytes);
    return Status::Ok();
  }
  Status GroupEnd() override {
    open_ = false;
    for (const auto& [peer, bytes] : sends_) mesh_->Put(rank_, peer, bytes);
    for (const auto& [peer, bytes] : recvs_) {
      GW_RETURN_IF_ERROR(mesh_->Take(peer, rank_, bytes));
    }
    sends_.clear();
    recvs_.clear();
    return Status::Ok();
  }
  bool open() const { return open_; }
  int groups() const { return groups_; }

 private:
  Mesh* const mesh_;  // outlives the ranks' threads
  const int rank_;
  bool open_ = false;
  int groups_ = 0;
  std::vector<std::pair<int, ConstBytes>> sends_;
  std::vector<std::pair<int, Bytes>> recvs_;
};

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
  const int n = static_cast<int>(ranks->works.size());
  Mesh mesh;
  std::vector<Status> results(n);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank) {
      threads.emplace_back([&, rank] {
        const StreamPlan plan(ranks->schedules[rank]->schedule);
        AlignedBuffer scratch;
        results[rank] = scratch.EnsureBytes(StreamScratchBytes(plan, *ranks->works[rank]));
        ThreadTransport transport(&mesh, rank);
        StreamRun run(&plan, ranks->works[rank].get(), scratch.bytes());
        while (results[rank].ok() && !run.done()) results[rank] = run.IssueRound(&transport);
      });
    }
  }
  for (Status& status : results) GW_RETURN_IF_ERROR(std::move(status));
  return Status::Ok();
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

TEST(StreamDriverTest, EmptyMessagesOpenNoGroup) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kBarrier, "dissemination");
  const StreamPlan plan(row.make(0, 4, 0));
  ReferenceWork work(&plan.schedule, {.partition = EvenPartition(0, 1)});
  Mesh mesh;
  ThreadTransport transport(&mesh, 0);
  StreamRun run(&plan, &work, {});
  while (!run.done()) ASSERT_TRUE(run.IssueRound(&transport).ok());
  EXPECT_EQ(transport.groups(), 0);
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
  const StreamPlan plan(row.make(0, 4, 0));
  ReferenceWork work(&plan.schedule, {.partition = EvenPartition(64, 4)});
  AlignedBuffer scratch;
  ASSERT_TRUE(scratch.EnsureBytes(StreamScratchBytes(plan, work)).ok());
  FailingTransport transport;
  StreamRun run(&plan, &work, scratch.bytes());
  EXPECT_EQ(run.IssueRound(&transport).code(), gwPeerLost);
  EXPECT_EQ(transport.open(), 0);
  EXPECT_EQ(run.next_round(), 0);
}

TEST(StreamScratchTest, HoldsOneRoundOfAdditions) {
  const AlgorithmRow& row = **FindAlgorithm(Collective::kAllReduce, "direct");
  const StreamPlan plan(row.make(0, 4, 0));
  ReferenceWork work(&plan.schedule, {.partition = EvenPartition(40, 4), .dtype = DType::kFloat32});
  // Rank 0 adds three shards of 10 floats in one round, each in a slot of 64 bytes.
  EXPECT_EQ(StreamScratchBytes(plan, work), 3 * 64);
}

}  // namespace
}  // namespace gradwire
