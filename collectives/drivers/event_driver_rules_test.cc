// What the event driver refuses: damaged, forged, repeated and mismatching frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/drivers/driver_ends.h"
#include "transports/frame/frame.h"

namespace gradwire {
namespace {

TEST(EventDriverRules, ADamagedFrameIsAnErrorWhereverItIs) {
  DriverCase c = {
      .row = &Row(Collective::kAllReduce, "ring"), .n = 3, .elems = 100, .faulty = true};
  for (int64_t at = 0; at < 12; ++at) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      c.plan = {.corrupt_at = at};
      c.seed = seed;
      SCOPED_TRACE(c.ToString());
      Ends ends(c);
      for (int rank = 0; rank < c.n; ++rank) ends.Start(rank);
      ends.PollUntilStill();
      for (int rank = 0; rank < c.n; ++rank) {
        const std::optional<ProtocolError> error = ends[rank].driver->TakeProtocolError();
        ASSERT_TRUE(error.has_value()) << "rank " << rank;
        // A bit of `job` or `epoch` cannot pass for a stale frame: the checksum is looked at first.
        EXPECT_EQ(error->status.code(), gwDataCorrupt) << error->status.ToString();
        EXPECT_EQ(error->peer, (rank + c.n - 1) % c.n);
      }
    }
  }
}

// Rank 1 of two, which gets frames made by hand in the name of rank 0.
class HandMadeFrames : public testing::Test {
 protected:
  HandMadeFrames()
      : ends_(DriverCase{.row = &Row(Collective::kAllReduce, "direct"), .n = 2, .elems = 64}) {
    for (const Step& step : ends_[0].schedule->schedule.steps) {
      if (step.kind == StepKind::kSend) messages_.push_back(step.message);
    }
    payload_.resize(256);
  }

  EventDriver& driver() { return *ends_[1].driver; }

  // Message 0 of the reduce-scatter half: 32 elements, whole.
  FrameHeader Header() {
    return {.src = 0,
            .job = kJob,
            .message = static_cast<uint32_t>(messages_[0]),
            .message_bytes = 256,
            .fragment_bytes = 256,
            .signature = kSignature};
  }
  void Arrive(FrameHeader header, int peer = 0) {
    const ConstBytes fragment = {payload_.data(), header.fragment_bytes};
    SealFrame(&header, fragment);
    driver().OnFragment(peer, header, fragment);
  }
  void ExpectError(gwResult_t code) {
    const std::optional<ProtocolError> error = driver().TakeProtocolError();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status.code(), code) << error->status.ToString();
    EXPECT_EQ(error->peer, 0);
    EXPECT_EQ(error->status.detail().rank, 1);
  }

  // Sends frames of a run that is not admitted in `turn` until one is too many; how many are kept.
  int KeepAll(uint16_t turn) {
    FrameHeader header = Header();
    header.turn = turn;
    for (int kept = 0;; ++kept) {
      Arrive(header);
      if (const auto error = driver().TakeProtocolError()) {
        EXPECT_EQ(error->status.code(), gwMismatch) << error->status.ToString();
        return kept;
      }
    }
  }

  Ends ends_;
  std::vector<int32_t> messages_;
  std::vector<std::byte> payload_;
};

TEST_F(HandMadeFrames, WhatIsNotKeptTakesNoRoom) {
  const int kept = KeepAll(0);
  EXPECT_GT(kept, 100);
  driver().BeginTurn(1);
  EXPECT_EQ(KeepAll(1), kept);
}

TEST_F(HandMadeFrames, AnotherSignatureIsAMismatch) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.signature ^= 1;
  Arrive(header);
  ExpectError(gwMismatch);
}

TEST_F(HandMadeFrames, AnotherSignatureThatCameEarlyIsAMismatch) {
  FrameHeader header = Header();
  header.signature ^= 1;
  Arrive(header);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  ends_.Start(1);
  ExpectError(gwMismatch);
}

// The number of the operation may be what was damaged.
TEST_F(HandMadeFrames, ADamagedHeaderNamesNoOperation) {
  ends_.Start(1);
  FrameHeader header = Header();
  const ConstBytes fragment = {payload_.data(), header.fragment_bytes};
  SealFrame(&header, fragment);
  header.op_seq ^= 0x80000000u;
  driver().OnFragment(0, header, fragment);
  const std::optional<ProtocolError> error = driver().TakeProtocolError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->status.code(), gwDataCorrupt);
  EXPECT_FALSE(error->key.has_value());
}

TEST_F(HandMadeFrames, ADamagedFragmentNamesItsOperation) {
  ends_.Start(1);
  FrameHeader header = Header();
  const ConstBytes fragment = {payload_.data(), header.fragment_bytes};
  SealFrame(&header, fragment);
  payload_[7] ^= std::byte{1};
  driver().OnFragment(0, header, fragment);
  const std::optional<ProtocolError> error = driver().TakeProtocolError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->status.code(), gwDataCorrupt);
  EXPECT_EQ(error->key, RunKey{});
}

// Steps have no part in messages between two ranks.
TEST_F(HandMadeFrames, ADamagedFragmentOfAPairsMessageEndsNoRun) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.flags |= kFramePointToPoint;
  const ConstBytes fragment = {payload_.data(), header.fragment_bytes};
  SealFrame(&header, fragment);
  payload_[7] ^= std::byte{1};
  driver().OnFragment(0, header, fragment);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
}

// Operations are numbered from 0 again.
TEST_F(HandMadeFrames, WhatWasCancelledIsForgottenWithItsTurn) {
  ends_.Start(1);
  driver().CancelAll(Status(gwAborted, "the step was revoked"));
  driver().BeginTurn(1);
  EXPECT_FALSE(driver().TakeFinished().has_value());
}

TEST_F(HandMadeFrames, AnUnknownMessageIsCorrupt) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.message = 1000;
  Arrive(header);
  ExpectError(gwDataCorrupt);
}

TEST_F(HandMadeFrames, AnotherSizeIsCorrupt) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.message_bytes = 512;
  Arrive(header);
  ExpectError(gwDataCorrupt);
}

TEST_F(HandMadeFrames, AGapIsCorrupt) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.offset = 64;
  header.fragment_bytes = 192;
  Arrive(header);
  ExpectError(gwDataCorrupt);
}

TEST_F(HandMadeFrames, ARepeatIsCorrupt) {
  ends_.Start(1);
  Arrive(Header());
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  Arrive(Header());
  ExpectError(gwDataCorrupt);
}

// Nor does it matter that what it repeats came before its turn, or that it brings no bytes.
TEST_F(HandMadeFrames, ARepeatOfWhatCameEarlyIsCorrupt) {
  for (const bool is_bare : {false, true}) {
    SCOPED_TRACE(is_bare);
    ends_.Start(1, kSignature, {.op_seq = is_bare});
    FrameHeader header = Header();
    header.op_seq = is_bare;
    header.message = static_cast<uint32_t>(messages_[1]);
    Arrive(header);
    EXPECT_FALSE(driver().TakeProtocolError().has_value());
    if (is_bare) header.offset = 256, header.fragment_bytes = 0;
    Arrive(header);
    ExpectError(gwDataCorrupt);
  }
}

// Of two ranks and one element the second rank's shard is empty, and so is the message with it.
TEST(EventDriverRules, ARepeatOfAMessageOfNoBytesIsCorrupt) {
  Ends ends(DriverCase{.row = &Row(Collective::kAllReduce, "direct"), .n = 2, .elems = 1});
  ends.Start(1);
  const std::vector<Step>& steps = ends[0].schedule->schedule.steps;
  const auto send = std::find_if(steps.begin(), steps.end(),
                                 [](const Step& s) { return s.kind == StepKind::kSend; });
  FrameHeader header = {.src = 0,
                        .job = kJob,
                        .message = static_cast<uint32_t>(send->message),
                        .signature = kSignature};
  SealFrame(&header, {});
  EventDriver& driver = *ends[1].driver;
  driver.OnFragment(0, header, {});
  EXPECT_FALSE(driver.TakeProtocolError().has_value());
  driver.OnFragment(0, header, {});
  const std::optional<ProtocolError> error = driver.TakeProtocolError();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->status.code(), gwDataCorrupt) << error->status.ToString();
}

TEST_F(HandMadeFrames, AFrameInAnothersNameIsCorrupt) {
  ends_.Start(1);
  FrameHeader header = Header();
  header.src = 1;
  Arrive(header);
  ExpectError(gwDataCorrupt);
}

TEST_F(HandMadeFrames, AFrameForACompleteOperationIsAMismatch) {
  driver().SetCompletedBelow(3);
  FrameHeader header = Header();
  header.op_seq = 2;
  Arrive(header);
  ExpectError(gwMismatch);
}

TEST_F(HandMadeFrames, AFrameForACompleteOperationThatWasKeptIsAMismatch) {
  FrameHeader header = Header();
  header.op_seq = 1;
  Arrive(header);
  driver().SetCompletedBelow(1);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  driver().SetCompletedBelow(2);
  ExpectError(gwMismatch);
}

// Operation 1 of two slices has its first one complete, operation 2 all of it, before operation 0.
TEST_F(HandMadeFrames, AFrameForWhatIsCompleteOutOfOrderIsAMismatch) {
  driver().Admit(0, 0, 1);
  for (uint32_t slice : {0, 1}) driver().Admit(1, slice, 2);
  driver().Admit(2, 0, 1);
  driver().Retire(1, 0);
  driver().Retire(2, 0);
  const std::pair<uint32_t, uint32_t> complete[] = {{1, 0}, {2, 0}};
  const std::pair<uint32_t, uint32_t> missing[] = {{0, 1}, {1, 2}, {2, 1}};
  const std::pair<uint32_t, uint32_t> awaited[] = {{0, 0}, {1, 1}, {3, 0}, {3, 7}};
  FrameHeader header = Header();
  const auto arrive = [&](std::pair<uint32_t, uint32_t> at) {
    SCOPED_TRACE(testing::Message() << "slice " << at.second << " of operation " << at.first);
    std::tie(header.op_seq, header.slice) = at;
    Arrive(header);
  };
  for (const auto& at : awaited) {
    arrive(at);
    EXPECT_FALSE(driver().TakeProtocolError().has_value());
  }
  for (const auto& at : complete) {
    arrive(at);
    ExpectError(gwMismatch);
  }
  for (const auto& at : missing) {
    arrive(at);
    ExpectError(gwMismatch);
  }
  EXPECT_EQ(driver().counters().staged_bytes, std::ssize(awaited) * header.fragment_bytes);
}

TEST_F(HandMadeFrames, SlicesAreAwaitedAnewInEachTurn) {
  driver().Admit(0, 0, 1);
  driver().Retire(0, 0);
  driver().BeginTurn(1);
  FrameHeader header = Header();
  header.turn = 1;
  Arrive(header);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
}

TEST_F(HandMadeFrames, AFrameForARunThatIsCompleteIsAMismatch) {
  constexpr uint32_t kNextRun = 1u << 24;  // the run's number is in the top bits
  for (int rank : {0, 1}) {
    ends_[rank].driver->Admit(0, 0, 1);
    ends_.Start(rank);
  }
  ends_.PollUntilStill();
  ASSERT_TRUE(driver().TakeFinished().has_value());
  FrameHeader header = Header();
  header.message |= kNextRun;
  Arrive(header);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  Arrive(Header());
  ExpectError(gwMismatch);
}

TEST_F(HandMadeFrames, AFrameBeyondTheLastOperationIsAMismatch) {
  driver().SetSubmitted(2);
  FrameHeader header = Header();
  header.op_seq = 1;
  Arrive(header);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  header.op_seq = 2;
  Arrive(header);
  ExpectError(gwMismatch);
  // The next turn has a number of its own, and what came early is looked at when it is known.
  driver().BeginTurn(1);
  header.turn = 1;
  Arrive(header);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  driver().SetSubmitted(2);
  ExpectError(gwMismatch);
}

TEST_F(HandMadeFrames, OldTurnsAreDroppedNextOnesKeptOthersRefused) {
  driver().BeginTurn(0);
  FrameHeader header = Header();
  header.turn = 0xffff;  // the one before 0
  Arrive(header);
  EXPECT_EQ(driver().counters().stale_frames, 1);
  header.turn = 1;
  Arrive(header);
  EXPECT_EQ(driver().counters().staged_bytes, 256);
  EXPECT_FALSE(driver().TakeProtocolError().has_value());
  header.turn = 2;
  Arrive(header);
  ExpectError(gwDataCorrupt);
  // What was kept belongs to the turn that begins: it is consumed, so its repeat is refused.
  driver().BeginTurn(1);
  ends_.Start(1);
  header.turn = 1;
  Arrive(header);
  ExpectError(gwDataCorrupt);
}

TEST_F(HandMadeFrames, WhatRunsTooFarAheadIsAMismatch) {
  FrameHeader header = Header();
  const int64_t limit = 2 * 4 * kMaxMessageBytes + (1 << 20);
  const int64_t bytes = static_cast<int64_t>(sizeof header) + header.fragment_bytes;
  for (int64_t kept = 0; kept + bytes <= limit; kept += bytes, ++header.op_seq) Arrive(header);
  ASSERT_FALSE(driver().TakeProtocolError().has_value());
  Arrive(header);
  ExpectError(gwMismatch);
}

}  // namespace
}  // namespace gradwire
