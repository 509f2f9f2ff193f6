#include "runtime/engine/slice_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr uint64_t kKind = 17;

// Begins slices until there is no room.
int Fill(SliceWindow* window, double fill) {
  const int load = window->LoadOf(fill);
  int slices = 0;
  for (; window->HasRoom(load, false); ++slices) window->Begin(load, false);
  return slices;
}

void PassAlone(SliceWindow* window, int64_t took_ns) {
  ASSERT_TRUE(window->WantsAlone(kKind));
  ASSERT_TRUE(window->HasRoom(window->LoadOf(1), true));
  window->Begin(window->LoadOf(1), true);
  window->NoteTime(kKind, took_ns);
  window->End(window->LoadOf(1));
}

// Full slices without end over a way of `latency_ns` whose slowest part takes `each_ns` for one.
// The first is alone, the last are under way in the end.
void Pass(SliceWindow* window, int slices, int64_t latency_ns, int64_t each_ns) {
  PassAlone(window, latency_ns + each_ns);
  for (int i = 0; i < slices; ++i) {
    Fill(window, 1);
    window->NoteTime(kKind, std::max(latency_ns + each_ns, window->size() * each_ns));
    window->End(window->LoadOf(1));
  }
  window->Clear();
}

TEST(SliceWindow, AFixedOneHasSoManySlicesOfAnyLength) {
  SliceWindow window(7);
  EXPECT_EQ(window.most(), 7);
  EXPECT_FALSE(window.WantsAlone(kKind));
  EXPECT_EQ(Fill(&window, 0.001), 7);
  for (int i = 0; i < 1000; ++i) window.NoteTime(kKind, kMsNs);
  EXPECT_EQ(window.size(), 7);
}

TEST(SliceWindow, OneThatIsAloneWaitsForAllAndAllForIt) {
  SliceWindow window(0);
  const int load = window.LoadOf(1);
  window.Begin(load, false);
  EXPECT_FALSE(window.HasRoom(load, true));
  EXPECT_TRUE(window.HasRoom(load, false));
  window.End(load);
  EXPECT_TRUE(window.HasRoom(load, true));
  window.Begin(load, true);
  EXPECT_FALSE(window.HasRoom(load, false));
  EXPECT_FALSE(window.HasRoom(load, true));
  window.End(load);
  EXPECT_TRUE(window.HasRoom(load, false));
}

TEST(SliceWindow, FewAreAlone) {
  SliceWindow window(0);
  int alone = 0;
  for (int i = 0; i < 6400; ++i) alone += window.WantsAlone(kKind) ? 1 : 0;
  EXPECT_EQ(alone, 100 + 3);
}

TEST(SliceWindow, SmallSlicesTakeLittleRoom) {
  for (const auto& [fill, slices] :
       {std::pair(1.0, 4), {0.51, 7}, {0.5, 8}, {0.01, 64}, {0.0, 64}}) {
    SliceWindow window(0);
    EXPECT_EQ(Fill(&window, fill), slices) << fill;
    window.Clear();
    EXPECT_EQ(Fill(&window, 1), 4);
    window.End(window.LoadOf(1));
    EXPECT_EQ(Fill(&window, 1), 1);
  }
}

TEST(SliceWindow, NeverHasMoreThanTheMost) {
  SliceWindow window(0);
  Pass(&window, 1000, 1000 * kMsNs, 1);
  EXPECT_EQ(window.size(), SliceWindow::kMost);
  EXPECT_EQ(Fill(&window, 0.01), SliceWindow::kMost);
}

TEST(SliceWindow, StaysSmallWhereTheLinkIsBusy) {
  SliceWindow window(0);
  Pass(&window, 1000, kMsNs, 2 * kMsNs);
  EXPECT_EQ(window.size(), SliceWindow::kLeast);
}

// All slices take twice as long as one alone where the others' windows are half as large.
TEST(SliceWindow, WaitsForTheOthersWindows) {
  SliceWindow window(0);
  Pass(&window, 4, 20 * kMsNs, 1000);
  ASSERT_EQ(window.size(), 8);
  for (int i = 0; i < 1000; ++i) {
    Fill(&window, 1);
    window.NoteTime(kKind, 40 * kMsNs);
    window.End(window.LoadOf(1));
  }
  EXPECT_EQ(window.size(), 8);
}

TEST(SliceWindow, SlicesAreComparedWithThoseOfTheirKind) {
  SliceWindow window(0);
  const int load = window.LoadOf(1);
  for (const auto& [kind, took_ms] : {std::pair(kKind, 20), {kKind + 1, 5}}) {
    while (!window.WantsAlone(kind)) {
    }
    window.Begin(load, true);
    window.NoteTime(kind, took_ms * kMsNs);
    window.End(load);
  }
  for (const uint64_t kind : {kKind + 1, kKind}) {
    Fill(&window, 1);
    for (int i = 0; i < SliceWindow::kLeast; ++i) window.NoteTime(kind, 20 * kMsNs);
    EXPECT_EQ(window.size(), kind == kKind ? 8 : 4);
  }
}

TEST(SliceWindow, FollowsAWayThatBecomesLonger) {
  SliceWindow window(0);
  for (int i = 0; i < 4; ++i) PassAlone(&window, kMsNs);
  for (int longer = 0; longer < 4;) {
    if (!window.WantsAlone(kKind)) continue;
    ++longer;
    window.Begin(window.LoadOf(1), true);
    window.NoteTime(kKind, 20 * kMsNs);
    window.End(window.LoadOf(1));
  }
  Fill(&window, 1);
  for (int i = 0; i < 4; ++i) window.NoteTime(kKind, 20 * kMsNs);
  EXPECT_EQ(window.size(), 8);
}

TEST(SliceWindow, BeginsAnewWhereCountsMayDiffer) {
  SliceWindow window(0);
  for (int i = 0; i < 10; ++i) (void)window.WantsAlone(kKind);
  EXPECT_FALSE(window.WantsAlone(kKind));
  window.Forget();
  EXPECT_TRUE(window.WantsAlone(kKind));
}

TEST(SliceWindow, AnotherKindIsNotSlowedAtFirst) {
  SliceWindow window(0);
  ASSERT_TRUE(window.WantsAlone(kKind));
  int before = 0;
  while (!window.WantsAlone(kKind + 1)) ++before;
  EXPECT_EQ(before, 16);
  Fill(&window, 1);
  for (int i = 0; i < 1000; ++i) window.NoteTime(kKind + 2, kMsNs);
  EXPECT_EQ(window.size(), SliceWindow::kLeast) << "nothing is known of that kind";
}

// A slice that waited for a late rank tells nothing of the way.
TEST(SliceWindow, TheLeastTimeAloneCounts) {
  SliceWindow window(0);
  PassAlone(&window, 900 * kMsNs);
  Pass(&window, 1000, kMsNs, 2 * kMsNs);
  EXPECT_EQ(window.size(), SliceWindow::kLeast);
}

TEST(SliceWindow, GrowsUntilALongWayIsFull) {
  for (const int64_t each_ns : {kMsNs / 2, kMsNs, 2 * kMsNs, 4 * kMsNs}) {
    SliceWindow window(0);
    Pass(&window, 1000, 20 * kMsNs, each_ns);
    const int64_t needed = (20 * kMsNs + each_ns) / each_ns;
    EXPECT_GE(window.size(), needed) << each_ns;
    EXPECT_LE(window.size(), 3 * needed) << each_ns;
  }
}

TEST(SliceWindow, DoesNotGrowWhereNothingWaits) {
  SliceWindow window(0);
  PassAlone(&window, 20 * kMsNs);
  for (int i = 0; i < 1000; ++i) window.NoteTime(kKind, 20 * kMsNs);
  EXPECT_EQ(window.size(), SliceWindow::kLeast);
}

TEST(SliceWindow, ComesBackWhereSlicesGetInEachOthersWay) {
  SliceWindow window(0);
  Pass(&window, 200, 20 * kMsNs, 1000);
  ASSERT_EQ(window.size(), SliceWindow::kMost);
  Pass(&window, 4 * (64 + 32 + 16 + 8), kMsNs, 16 * kMsNs);
  EXPECT_EQ(window.size(), SliceWindow::kLeast);
}

TEST(SliceWindow, OneBatchThatWaitedChangesNothing) {
  SliceWindow window(0);
  Pass(&window, 200, 20 * kMsNs, 1000);
  for (const int64_t took_ms : {900, 20, 900, 20}) {
    for (int i = 0; i < SliceWindow::kMost; ++i) window.NoteTime(kKind, took_ms * kMsNs);
  }
  EXPECT_EQ(window.size(), SliceWindow::kMost);
}

}  // namespace
}  // namespace gradwire
