#include "runtime/engine/engine_notes.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/recorder/recorder_log.h"

namespace gradwire {
namespace {

constexpr int64_t kNowNs = 5000;

class NamedOperation final : public Operation {
 public:
  explicit NamedOperation(std::string what) { name = std::move(what); }
  OpText Text() const override { return {}; }
  int64_t slices() const override { return 1; }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t /*index*/) override {
    return Status(gwInternalError, "it has none");
  }
};

class EngineNotesTest : public testing::Test {
 protected:
  // The last ones.
  std::vector<RecorderEntry> Entries(std::ptrdiff_t count) {
    auto log = ParseRecorder(recorder_->memory());
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    EXPECT_GE(std::ssize(log->entries), count);
    return {log->entries.end() - count, log->entries.end()};
  }
  const EngineNotes& notes() const { return notes_; }

 private:
  static std::unique_ptr<Recorder> Open() {
    auto recorder = Recorder::Open({.capacity = 64});
    EXPECT_TRUE(recorder.ok()) << recorder.status().ToString();
    return std::move(*recorder);
  }

  const std::unique_ptr<Recorder> recorder_ = Open();
  const ManualClock clock_{kNowNs};
  const EngineNotes notes_{recorder_.get(), &clock_};
};

TEST_F(EngineNotesTest, TellWhenAndHowItEnded) {
  NamedOperation operation("all-reduce");
  operation.submit_ns = 7;
  operation.complete_ns = 9;
  operation.turn = 3;
  notes().StepEnded(3, 12, 1);
  notes().Submitted(operation);
  notes().Completed(operation, Status());
  notes().Completed(operation,
                    Status(gwPeerLost, ErrorDetail{.message = "rank 3 is gone", .peer = 3}));
  const std::vector<RecorderEntry> noted = Entries(4);
  EXPECT_EQ(noted[0].kind, RecordKind::kStepEnd);
  EXPECT_EQ(noted[0].time_ns, kNowNs);
  EXPECT_EQ(noted[0].step, 12u);
  EXPECT_EQ(noted[0].value, 1);
  EXPECT_EQ(noted[1].kind, RecordKind::kSubmit);
  EXPECT_EQ(noted[1].time_ns, 7);
  EXPECT_STREQ(noted[1].text, "all-reduce");
  EXPECT_EQ(noted[2].time_ns, 9);
  EXPECT_EQ(noted[2].turn, 3);
  EXPECT_EQ(noted[2].status, gwSuccess);
  EXPECT_EQ(noted[3].status, gwPeerLost);
  EXPECT_EQ(noted[3].peer, 3);
  EXPECT_STREQ(noted[3].text, "rank 3 is gone");
}

TEST_F(EngineNotesTest, TellOfVotesWhoseTheyAre) {
  notes().Voted(4, 6, 8, Status(gwMismatch, "operations differ"));
  notes().VoteHeard(4, 2, {.submitted = 9, .ok = 0});
  notes().VoteHeard(4, 1, {.submitted = 8, .ok = 1});
  const std::vector<RecorderEntry> noted = Entries(3);
  EXPECT_EQ(noted[0].kind, RecordKind::kVote);
  EXPECT_EQ(noted[0].op_seq, 6u);
  EXPECT_EQ(noted[0].value, 8);
  EXPECT_EQ(noted[0].status, gwMismatch);
  EXPECT_EQ(noted[1].kind, RecordKind::kVoteHeard);
  EXPECT_EQ(noted[1].time_ns, kNowNs);
  EXPECT_EQ(noted[1].peer, 2);
  EXPECT_EQ(noted[1].value, 9);
  EXPECT_EQ(noted[1].status, gwAborted);
  EXPECT_EQ(noted[2].status, gwSuccess);
}

TEST_F(EngineNotesTest, TellOfMessagesWhichWayTheyGo) {
  Transfer transfer;
  transfer.peer = 2;
  transfer.count = 10;
  notes().MessageCalled(transfer);
  notes().MessageEnded(transfer);
  transfer.kind = Transfer::Kind::kRecv;
  transfer.status = Status(gwTimeout, "nobody sends");
  notes().MessageCalled(transfer);
  notes().MessageEnded(transfer);
  const std::vector<RecorderEntry> noted = Entries(4);
  EXPECT_EQ(noted[0].kind, RecordKind::kSend);
  EXPECT_EQ(noted[0].value, 2);
  EXPECT_EQ(noted[0].bytes, 10);
  EXPECT_EQ(noted[1].kind, RecordKind::kSendDone);
  EXPECT_EQ(noted[1].status, gwSuccess);
  EXPECT_EQ(noted[2].kind, RecordKind::kRecv);
  EXPECT_EQ(noted[3].kind, RecordKind::kRecvDone);
  EXPECT_EQ(noted[3].status, gwTimeout);
}

TEST_F(EngineNotesTest, TellWhatARunWaitsFor) {
  notes().Waiting(2, {.key = {.op_seq = 5, .slice = 1}, .progress = {.peer = 3, .recvs = 100'000}});
  const RecorderEntry noted = Entries(1)[0];
  EXPECT_EQ(noted.kind, RecordKind::kWaiting);
  EXPECT_EQ(noted.turn, 2);
  EXPECT_EQ(noted.op_seq, 5u);
  EXPECT_EQ(noted.slice, 1u);
  EXPECT_EQ(noted.peer, 3);
  EXPECT_EQ(noted.progress.recvs, UINT16_MAX);
}

TEST(EngineNotes, NeedNoRecorder) {
  const ManualClock clock(kNowNs);
  const EngineNotes notes(nullptr, &clock);
  EXPECT_NO_FATAL_FAILURE(notes.Submitted(NamedOperation("all-reduce")));
  EXPECT_NO_FATAL_FAILURE(notes.EpochEnded(0, Status(gwAborted, "given up")));
}

}  // namespace
}  // namespace gradwire
