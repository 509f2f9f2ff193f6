#include "base/timeline.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/clock.h"

namespace gradwire {
namespace {

TEST(ScopedSpan, LastsAsLongAsItsScope) {
  ManualClock clock;
  Timeline timeline;
  const int64_t begin_ns = clock.NowNs();
  {
    const ScopedSpan span(&timeline, &clock, SpanKind::kBlocked);
    clock.Advance(5);
  }
  ASSERT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(timeline.spans()[0].kind, SpanKind::kBlocked);
  EXPECT_EQ(timeline.spans()[0].begin_ns, begin_ns);
  EXPECT_EQ(timeline.spans()[0].end_ns, begin_ns + 5);
}

// Counts who asks.
class CountingClock final : public Clock {
 public:
  int64_t NowNs() const override { return ++calls_; }
  int calls() const { return calls_; }

 private:
  mutable int calls_ = 0;
};

TEST(ScopedSpan, WithoutATimelineAsksNoClock) {
  CountingClock clock;
  Timeline timeline;
  { const ScopedSpan span(nullptr, &clock, SpanKind::kBlocked); }
  EXPECT_EQ(clock.calls(), 0);
  { const ScopedSpan span(&timeline, &clock, SpanKind::kBlocked); }
  EXPECT_EQ(clock.calls(), 2);
}

TEST(Timeline, KeepsTheFirstSpansAndTellsHowManyCameBehind) {
  Timeline timeline;
  for (uint64_t i = 0; i < Timeline::kMaxSpans + 2; ++i) timeline.Add({.number = i});
  ASSERT_EQ(timeline.spans().size(), Timeline::kMaxSpans);
  EXPECT_EQ(timeline.spans().back().number, Timeline::kMaxSpans - 1);
  const std::string path = testing::TempDir() + "/long_timeline";
  ASSERT_TRUE(timeline.WriteTo(path, {}).ok());
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  EXPECT_EQ(last, "{\"left_out\": 2}");
}

TEST(NameOf, EveryKindOfSpan) {
  EXPECT_EQ(NameOf(SpanKind::kStep), "step");
  EXPECT_EQ(NameOf(SpanKind::kBlocked), "blocked");
  EXPECT_EQ(NameOf(SpanKind::kEncode), "encode");
  EXPECT_EQ(NameOf(SpanKind::kDecode), "decode");
  EXPECT_EQ(NameOf(SpanKind::kWire), "wire");
}

TEST(Timeline, IsWrittenAsLines) {
  Timeline timeline;
  timeline.Add({.kind = SpanKind::kStep, .begin_ns = 1, .end_ns = 9, .number = 7});
  timeline.Add({.kind = SpanKind::kDecode, .begin_ns = 2, .end_ns = 3});
  const std::string path = testing::TempDir() + "/timeline";
  ASSERT_TRUE(timeline.WriteTo(path, {.job = 255, .rank = 1, .ranks = 2}).ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(),
            "{\"job\": \"00000000000000ff\", \"rank\": 1, \"ranks\": 2}\n"
            "{\"span\": \"step\", \"begin_ns\": 1, \"end_ns\": 9, \"number\": 7}\n"
            "{\"span\": \"decode\", \"begin_ns\": 2, \"end_ns\": 3, \"number\": 0}\n");
  EXPECT_EQ(timeline.WriteTo("/nowhere/at/all", {}).code(), gwSystemError);
}

}  // namespace
}  // namespace gradwire
