#include "runtime/recorder/engine_notes.h"

#include <gtest/gtest.h>

#include "runtime/recorder/recorder_log.h"

namespace gradwire {
namespace {

constexpr int64_t kNowNs = 5000;

TEST(EngineNotes, TellWhenAndHowItEnded) {
  auto recorder = Recorder::Open({.capacity = 64});
  ASSERT_TRUE(recorder.ok()) << recorder.status().ToString();
  const ManualClock clock(kNowNs);
  const EngineNotes notes(recorder->get(), &clock);
  notes.Add({.kind = RecordKind::kSubmit});
  notes.Add({.kind = RecordKind::kSubmit, .time_ns = 7});
  notes.Add({.kind = RecordKind::kComplete}, Status());
  notes.Add({.kind = RecordKind::kComplete},
            Status(gwPeerLost, ErrorDetail{.message = "rank 3 is gone", .peer = 3}));
  const auto log = ParseRecorder((*recorder)->memory());
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  ASSERT_GE(log->entries.size(), 4u);
  const RecorderEntry* const noted = &log->entries[log->entries.size() - 4];
  EXPECT_EQ(noted[0].time_ns, kNowNs);
  EXPECT_EQ(noted[1].time_ns, 7);
  EXPECT_EQ(noted[2].status, gwSuccess);
  EXPECT_EQ(noted[3].status, gwPeerLost);
  EXPECT_EQ(noted[3].peer, 3);
  EXPECT_STREQ(noted[3].text, "rank 3 is gone");
}

TEST(EngineNotes, NeedNoRecorder) {
  const ManualClock clock(kNowNs);
  const EngineNotes notes(nullptr, &clock);
  EXPECT_NO_FATAL_FAILURE(notes.Add({.kind = RecordKind::kSubmit}));
  EXPECT_NO_FATAL_FAILURE(
      notes.Add({.kind = RecordKind::kComplete}, Status(gwAborted, "given up")));
}

}  // namespace
}  // namespace gradwire
