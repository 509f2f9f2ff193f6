#include "runtime/controller/plan.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

PlanOrder Order(uint16_t from_turn) {
  return {.from_turn = from_turn, .entries = {{3, 1, 2}, {9, 4, 4}}};
}

TEST(PlanOrder, ComparesInBlocksOfFour) {
  // The last turns before the number wraps, and the first after.
  const PlanOrder order = Order(65534);
  for (int i = 0; i < 12; ++i) {
    const auto turn = static_cast<uint16_t>(65534 + i);
    const bool b = i % 4 == 1 || i % 4 == 2;
    EXPECT_EQ(RunsPlanB(order, turn), b) << i;
    EXPECT_EQ(RungAt(order, 3, turn), b ? 2 : 1) << i;
    EXPECT_EQ(RungAt(order, 9, turn), 4) << i;
  }
}

TEST(PlanOrder, ComparesInLongerBlocksWherePlansSettle) {
  PlanOrder order = Order(65534);
  order.in_a_row = kInARowToSettle;
  std::string ran;
  for (int i = 0; i < 12; ++i)
    ran += RungAt(order, 3, static_cast<uint16_t>(65534 + i)) == 2 ? 'B' : 'A';
  EXPECT_EQ(ran, "AABBBBAAAABB");
}

TEST(PlanOrder, OtherTensorsStayBelow) {
  EXPECT_EQ(RungAt(Order(0), 4, 1), 0);
  EXPECT_EQ(RungAt(PlanOrder(), 4, 1), 0);
}

TEST(PlanOrder, ReadsBack) {
  PlanOrder settling = Order(9);
  settling.in_a_row = kInARowToSettle;
  for (const PlanOrder& order : {Order(7), settling, PlanOrder{.from_turn = 8}}) {
    const StatusOr<PlanOrder> read = DecodeOrder(EncodeOrder(order));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, order);
  }
}

TEST(PlanOrder, DamagedBytesAreRefused) {
  const std::string good = EncodeOrder(Order(7));
  for (size_t length = 0; length < good.size(); ++length) {
    const StatusOr<PlanOrder> read = DecodeOrder(std::string_view(good).substr(0, length));
    // A shorter list of whole entries is a list too.
    if (read.ok()) {
      EXPECT_LT(read->entries.size(), 2u);
    }
  }
  EXPECT_EQ(DecodeOrder("").status().code(), gwDataCorrupt);
  EXPECT_EQ(DecodeOrder(good + "x").status().code(), gwDataCorrupt);
  for (const uint8_t in_a_row : {0, 1, 3, 8, 255}) {
    const PlanOrder unknown = {.in_a_row = in_a_row};
    EXPECT_EQ(DecodeOrder(EncodeOrder(unknown)).status().code(), gwDataCorrupt) << int{in_a_row};
  }
  const PlanOrder unsorted = {.entries = {{9, 1, 1}, {3, 1, 1}}};
  EXPECT_EQ(DecodeOrder(EncodeOrder(unsorted)).status().code(), gwDataCorrupt);
  const PlanOrder twice = {.entries = {{3, 1, 1}, {3, 2, 2}}};
  EXPECT_EQ(DecodeOrder(EncodeOrder(twice)).status().code(), gwDataCorrupt);
}

}  // namespace
}  // namespace gradwire
