#include "runtime/recorder/entry_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "base/status.h"

namespace gradwire {
namespace {

RecorderEntry With(RecorderEntry entry, const char* text) {
  std::strncpy(entry.text, text, sizeof entry.text);
  return entry;
}

TEST(EntryText, EachKindInWords) {
  RecorderEntry e = {.step = 77, .op_seq = 12, .slice = 3, .peer = 2, .value = 13};
  e.progress = {1, 2, 0, 4};
  const auto words = [&](RecordKind kind, const char* text, int status = gwSuccess) {
    e.kind = kind;
    e.status = status;
    return DescribeEntry(With(e, text));
  };
  EXPECT_EQ(words(RecordKind::kOpen, ""), "recorder opened");
  EXPECT_EQ(words(RecordKind::kStepBegin, ""), "step 77 begun");
  EXPECT_EQ(words(RecordKind::kStepEnd, ""), "step 77 ended by the caller after 13 operations");
  EXPECT_EQ(words(RecordKind::kSubmit, "all-reduce w1"), "operation #12 (all-reduce w1) submitted");
  EXPECT_EQ(words(RecordKind::kAdmit, ""), "slice 3 of operation #12 admitted");
  EXPECT_EQ(words(RecordKind::kSliceDone, "barrier"), "slice 3 of operation #12 (barrier) done");
  EXPECT_EQ(words(RecordKind::kComplete, ""), "operation #12 complete");
  EXPECT_EQ(words(RecordKind::kComplete, "bad frame", gwDataCorrupt),
            "operation #12 failed: data corrupt: bad frame (rank 2)");
  EXPECT_EQ(words(RecordKind::kWaiting, "send"),
            "waiting for rank 2 in slice 3 of operation #12 (send): sent 1 of 2, received 0 of 4");
  EXPECT_EQ(words(RecordKind::kVote, ""), "voted yes after 13 operations");
  EXPECT_EQ(words(RecordKind::kVote, "bad frame", gwDataCorrupt),
            "voted no: data corrupt: bad frame (rank 2)");
  EXPECT_EQ(words(RecordKind::kVoteHeard, ""), "rank 2 voted yes after 13 operations");
  EXPECT_EQ(words(RecordKind::kVoteHeard, "bad frame", gwDataCorrupt),
            "rank 2 voted no: data corrupt: bad frame");
  EXPECT_EQ(words(RecordKind::kRevoke, "bad frame", gwDataCorrupt),
            "step revoked by rank 13: data corrupt: bad frame (rank 2)");
  EXPECT_EQ(words(RecordKind::kPeerLost, "no heartbeat"), "rank 2 lost: no heartbeat");
  EXPECT_EQ(words(RecordKind::kError, "", gwTimeout), "communicator failed: timeout (rank 2)");
  EXPECT_EQ(words(RecordKind::kPlan, ""), "plan 13 ordered");
  EXPECT_EQ(words(RecordKind::kClose, ""), "closed");
  e.bytes = 4096;
  EXPECT_EQ(words(RecordKind::kSend, ""), "send to rank 13 (4096 bytes) called");
  EXPECT_EQ(words(RecordKind::kRecv, ""), "receive from rank 13 (4096 bytes) called");
  EXPECT_EQ(words(RecordKind::kSendDone, ""), "send to rank 13 (4096 bytes) complete");
  EXPECT_EQ(words(RecordKind::kRecvDone, "it left", gwPeerLost),
            "receive from rank 13 (4096 bytes) failed: peer lost: it left (rank 2)");
  EXPECT_EQ(words(RecordKind::kResult, "why", gwMismatch),
            "step 77 aborted: ranks disagree: why (rank 2)");
  e.value = 0;
  e.peer = -1;
  EXPECT_EQ(words(RecordKind::kResult, ""), "step 77 committed");
  e.value = 1;
  EXPECT_EQ(words(RecordKind::kResult, ""), "step 77 skipped");
}

TEST(EntryText, CountsOfOperationsGoOnPast2To31) {
  const auto with = [](RecordKind kind, uint32_t value) {
    return RecorderEntry{.kind = kind, .peer = 1, .value = static_cast<int32_t>(value)};
  };
  for (const RecordKind kind : {RecordKind::kStepEnd, RecordKind::kVote, RecordKind::kVoteHeard}) {
    const RecorderEntry e = with(kind, 3'000'000'000);
    EXPECT_EQ(ValueOf(e), 3'000'000'000);
    EXPECT_NE(DescribeEntry(e).find("after 3000000000 operations"), std::string::npos)
        << DescribeEntry(e);
  }
  EXPECT_EQ(ValueOf(with(RecordKind::kRevoke, static_cast<uint32_t>(-1))), -1);
}

TEST(EntryText, KindsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kRecordKinds; ++i) {
    EXPECT_TRUE(names.insert(Name(static_cast<RecordKind>(i))).second) << i;
  }
  EXPECT_EQ(Name(RecordKind::kOpen), "open");
  EXPECT_EQ(Name(RecordKind::kClose), "close");
  EXPECT_EQ(Name(RecordKind::kVoteHeard), "vote heard");
  EXPECT_EQ(Name(RecordKind::kRecvDone), "received");
  EXPECT_EQ(kRecordKinds, static_cast<int>(RecordKind::kRecvDone) + 1);
}

TEST(EntryText, NothingReachesTheTerminalRaw) {
  EXPECT_EQ(EntryText(With({}, "a\x1b[31mb\nc\x7f\t")), "a?[31mb?c??");
  EXPECT_EQ(EntryText(With({}, "g\xc3\xbc")), "g\xc3\xbc");
}

TEST(UtcText, IsUtcWithMilliseconds) {
  EXPECT_EQ(UtcText(0), "1970-01-01 00:00:00.000");
  EXPECT_EQ(UtcText(1'700'000'000'123'999'999), "2023-11-14 22:13:20.123");
}

}  // namespace
}  // namespace gradwire
