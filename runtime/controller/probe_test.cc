#include "runtime/controller/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/clock.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kPieceElems = kProbeBytes / kFloatBytes;

TEST(PieceToProbe, IsWholeRows) {
  const auto piece = PieceToProbe(std::vector<int64_t>{1000, 30, 10}, kFloatBytes, 0);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->shape, (std::vector<int64_t>{kPieceElems / 300, 30, 10}));
  EXPECT_EQ(piece->elems, kPieceElems / 300 * 300);
}

TEST(PieceToProbe, IsAllOfASmallTensor) {
  for (const int64_t number : {0, 1, 7}) {
    const auto piece = PieceToProbe(std::vector<int64_t>{10, 20}, kFloatBytes, number);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->first_elem, 0);
    EXPECT_EQ(piece->shape, (std::vector<int64_t>{10, 20}));
  }
}

TEST(PieceToProbe, GoesThroughTheTensor) {
  const int64_t elems = 5 * kPieceElems / 2;  // two whole pieces
  std::set<int64_t> begins;
  for (int number = 0; number < 6; ++number) {
    const auto piece = PieceToProbe(std::vector<int64_t>{elems}, kFloatBytes, number);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->elems, kPieceElems);
    begins.insert(piece->first_elem);
  }
  EXPECT_EQ(begins, (std::set<int64_t>{0, kPieceElems}));
}

TEST(PieceToProbe, IsNothingWhereARowIsTooLong) {
  EXPECT_TRUE(PieceToProbe(std::vector<int64_t>{2, 4 * kPieceElems}, kFloatBytes, 0));
  EXPECT_FALSE(PieceToProbe(std::vector<int64_t>{2, 4 * kPieceElems + 1}, kFloatBytes, 0));
}

TEST(PieceToProbe, IsNothingOfNothing) {
  EXPECT_FALSE(PieceToProbe(std::vector<int64_t>{}, kFloatBytes, 0));
  EXPECT_FALSE(PieceToProbe(std::vector<int64_t>{5, 0}, kFloatBytes, 0));
}

TEST(Prober, LearnsNothingOfPiecesWithoutAFiniteEnergy) {
  constexpr int64_t kElems = 4096;
  const std::vector<int64_t> shape = {64, 64};
  const ManualClock clock;
  Prober prober(&clock);
  for (const char* spec : {"bf16", "qsgd(bits=4)", "topk(0.1)", "powersgd(rank=2)"}) {
    const Codec codec = *MakeCodec(spec);
    std::vector<float> grad(kElems, 0.0f);
    const auto probe = [&] {
      return prober.Probe(codec, FloatView(grad.data(), kElems), shape, /*world_size=*/4);
    };
    EXPECT_EQ(probe().status().code(), gwNonFinite) << spec;
    for (int64_t i = 0; i < kElems; ++i) grad[i] = std::sin(static_cast<float>(i));
    EXPECT_TRUE(probe().ok()) << spec << ": " << probe().status().ToString();
    grad[7] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(probe().status().code(), gwNonFinite) << spec;
  }
}

}  // namespace
}  // namespace gradwire
