#include "runtime/controller/probe.h"

#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
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

TEST(PieceToProbe, IsAPartOfARowThatIsTooLong) {
  constexpr int64_t kLongest = 4 * kPieceElems;
  EXPECT_EQ(PieceToProbe(std::vector<int64_t>{2, kLongest}, kFloatBytes, 1)->shape,
            (std::vector<int64_t>{1, kLongest}));
  const auto piece = PieceToProbe(std::vector<int64_t>{2, kLongest + 1}, kFloatBytes, 1);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->shape, (std::vector<int64_t>{kPieceElems}));
  EXPECT_EQ(piece->elems, kPieceElems);
  EXPECT_EQ(piece->first_elem, kPieceElems);
}

TEST(Prober, LearnsNothingOfLowRankFromAPartOfARow) {
  const std::vector<int64_t> shape = {1, 100 * kPieceElems};
  const ProbePiece piece = *PieceToProbe(shape, kFloatBytes, 0);
  const std::vector<float> grad(static_cast<size_t>(piece.elems), 1.0f);
  const ManualClock clock;
  Prober prober(&clock);
  const auto probe = [&](const char* spec) {
    return prober.Probe(*MakeCodec(spec), FloatView(grad.data(), piece.elems), piece.shape,
                        /*world_size=*/4);
  };
  EXPECT_TRUE(probe("bf16").ok());
  EXPECT_TRUE(probe("topk(0.1)").ok());
  EXPECT_EQ(probe("powersgd(rank=1)").status().code(), gwInvalidArgument);
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

// The rules of the thread that submits are the application's.
TEST(Prober, MeasuresByTheRulesOfTraining) {
  constexpr int64_t kElems = 4096;
  const std::vector<int64_t> shape = {64, 64};
  const ManualClock clock;
  Prober prober(&clock);
  std::vector<float> grad(kElems);
  for (int64_t i = 0; i < kElems; ++i) grad[i] = 1e-39f * static_cast<float>(i % 7 + 1);
  const Codec codec = *MakeCodec("bf16");
  const auto error = [&] {
    const auto report =
        prober.Probe(codec, FloatView(grad.data(), kElems), shape, /*world_size=*/4);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? report->relative_error : -1;
  };
  const double expected = error();
#if defined(__x86_64__)
  constexpr unsigned int kFlushSubnormals = 0x8040;
  const unsigned int before = _mm_getcsr();
  _mm_setcsr(before | kFlushSubnormals);
  const double found = error();
  _mm_setcsr(before);
  EXPECT_EQ(found, expected);
#endif
  EXPECT_LT(expected, 0.01);
}

// Writes down what it is given; counts its steps in the state that it keeps.
class Witness final : public CarrierMethod {
 public:
  struct Call {
    int world_size = 0;
    uint32_t rank = 0, steps_before = 0;
    bool has_residual = false;  // to read and to write
  };

  const CodecTraits& traits() const override {
    static constexpr CodecTraits kTraits = {};
    return kTraits;
  }
  int rounds() const override { return 1; }
  CarrierUnit unit() const override { return CarrierUnit::kTensor; }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }
  int64_t ReplicatedBytes(const TensorMeta&, int) const override { return sizeof(uint32_t); }
  Status Check(const TensorMeta&, int world_size) const override {
    checked_ranks = world_size;
    return Status();
  }
  RoundSpec Round(int, const TensorMeta&, int, ConstBytes, ConstBytes) const override {
    return {.dtype = DType::kInt32, .elems = 1};
  }
  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    calls.push_back({.world_size = view.world_size,
                     .rank = view.dither.rank,
                     .steps_before = StepsIn(view),
                     .has_residual = !view.e_in.empty() && !view.e_out.empty()});
    EXPECT_EQ(view.e_in.empty(), view.e_out.empty());
    *carrier.as<int32_t>() = 1;
    view.stats->sum_p2 += 4;
    view.stats->sum_err2 += 1;
    return Status();
  }
  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    EXPECT_EQ(*reduced.as<int32_t>(), view.world_size) << "all ranks take part in the sum";
    const uint32_t steps = StepsIn(view) + 1;
    std::memcpy(view.replicated_out.data, &steps, sizeof(steps));
    return Status();
  }

  mutable std::vector<Call> calls;
  mutable int checked_ranks = 0;

 private:
  static uint32_t StepsIn(const StepView& view) {
    uint32_t steps;
    std::memcpy(&steps, view.replicated_in.data, sizeof(steps));
    return steps;
  }
};

TEST(Prober, GivesCarriersWhatStepsGiveThem) {
  const ManualClock clock;
  const std::vector<float> grad(64, 1.0f);
  for (const Feedback feedback : {Feedback::kOff, Feedback::kOn}) {
    Prober prober(&clock);
    const auto witness = std::make_shared<Witness>();
    const Codec codec = {.feedback = feedback, .carrier = witness};
    const StatusOr<ProbeReport> report =
        prober.Probe(codec, FloatView(grad.data(), 64), std::vector<int64_t>{64}, 16);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->relative_error, 0.25) << "of one rank in one step";
    EXPECT_EQ(witness->checked_ranks, 16);
    ASSERT_EQ(witness->calls.size(), size_t{kProbedSteps * kProbedRanks});
    for (size_t i = 0; i < witness->calls.size(); ++i) {
      const Witness::Call& call = witness->calls[i];
      EXPECT_EQ(call.world_size, kProbedRanks);
      EXPECT_EQ(call.rank, i % kProbedRanks);
      EXPECT_EQ(call.steps_before, i / kProbedRanks);
      EXPECT_EQ(call.has_residual, feedback == Feedback::kOn);
    }
  }
}

// A matrix of rank two and little else: columns drawn at random, as before the first step, catch
// next to nothing of it.
TEST(Prober, TriesLowRankFromABasisThatAStepHasMade) {
  constexpr int64_t kRows = 64, kCols = 128;
  std::vector<float> grad;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kCols; ++c) {
      const auto row = static_cast<float>(r), col = static_cast<float>(c);
      grad.push_back(std::sin(row) * std::cos(3 * col) + std::cos(5 * row) * std::sin(7 * col) +
                     0.05f * std::sin(row * col));
    }
  }
  const ManualClock clock;
  Prober prober(&clock);
  for (const char* spec : {"acp(rank=2)", "powersgd(rank=2)"}) {
    const auto report = prober.Probe(*MakeCodec(spec), FloatView(grad.data(), kRows * kCols),
                                     std::vector<int64_t>{kRows, kCols}, /*world_size=*/4);
    ASSERT_TRUE(report.ok()) << spec << ": " << report.status().ToString();
    EXPECT_LT(report->relative_error, 0.05) << spec;
  }
}

}  // namespace
}  // namespace gradwire
