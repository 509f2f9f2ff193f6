#include "base/wrapping.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gradwire {
namespace {

TEST(Wrapping, TurnsAreAheadAlsoBehindTheWrap) {
  for (const uint16_t turn : {uint16_t{0}, uint16_t{7}, uint16_t{0x7fff}, uint16_t{0xffff}}) {
    for (const int ahead : {-0x8000, -2, -1, 0, 1, 2, 0x7fff})
      EXPECT_EQ(TurnsAhead(static_cast<uint16_t>(turn + ahead), turn), ahead) << turn;
  }
}

TEST(Wrapping, OperationsAreInOrderAlsoBehindTheWrap) {
  for (const uint32_t op_seq : {0u, 7u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_FALSE(IsBefore(op_seq, op_seq));
    for (const uint32_t ahead : {1u, 2u, 0x7fffffffu}) {
      EXPECT_TRUE(IsBefore(op_seq, op_seq + ahead)) << op_seq;
      EXPECT_FALSE(IsBefore(op_seq + ahead, op_seq)) << op_seq;
    }
  }
}

}  // namespace
}  // namespace gradwire
