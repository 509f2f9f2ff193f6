#include "compress/codecs/intsgd/intsgd_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/intsgd/intsgd_kernels.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

// The paper's weight of the past in the average of squares.
constexpr double kPast = 0.9;
// Floats hold all integers up to this one.
constexpr int64_t kMostExact = int64_t{1} << 24;
// Its inverse is a normal float.
constexpr float kLeastUnit = 0x1p-100f;
// Some places below the largest float, so that the largest integer times its unit, both rounded, is
// one too.
constexpr float kLargestMagnitude = 0x1.fffff0p127f;

// Sixteen sums of their own, so that compilers can use vectors and all ranks get the same bits.
double SumOfSquares(const int32_t* values, int64_t elems) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  for (int64_t first = 0; first + kLanes <= elems; first += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const double v = values[first + k];
      lanes[k] += v * v;
    }
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (int64_t i = elems - elems % kLanes; i < elems; ++i) {
    const double v = values[i];
    sum += v * v;
  }
  return sum;
}

// Exact, so that it is the same in any order.
double SumOfSquares(const int8_t* values, int64_t elems) {
  int64_t sum = 0;
  int64_t first = 0;
  for (; first + kRunElems <= elems; first += kRunElems) {
    int32_t of_run = 0;
    for (int64_t k = 0; k < kRunElems; ++k) {
      const int16_t v = values[first + k];
      of_run += v * v;
    }
    sum += of_run;
  }
  for (; first < elems; ++first) sum += values[first] * values[first];
  return static_cast<double>(sum);
}

// Round 0 agrees on the largest magnitude, in steps that have no scale from the past only; round 1
// adds the integers and, behind them, the number of ranks that are not finite. Agreed: that
// magnitude. Replicated: the average of the squared length of the mean, a float; 0: none yet.
class IntsgdCarrier final : public CarrierMethod {
 public:
  explicit IntsgdCarrier(DType type) : type_(type) {}

  const CodecTraits& traits() const override {
    // Biased where it clips. A level may be larger than the value: not contractive.
    static constexpr CodecTraits kTraits = {.stochastic = true, .scales_from_past = true};
    return kTraits;
  }
  int rounds() const override { return 2; }
  CarrierUnit unit() const override { return CarrierUnit::kTensor; }
  Status Check(const TensorMeta&, int world_size) const override {
    if (MostOf(world_size) > 0) return Status();
    return Status(gwInvalidArgument,
                  "integers of 8 bits can be added over at most " +
                      std::to_string(MostOfSum(type_)) + " ranks",
                  "Use bits=32");
  }
  int64_t QuantumElems(const TensorMeta&, int) const override { return 1; }
  int64_t AgreedBytes(const TensorMeta&, int) const override { return sizeof(uint32_t); }
  int64_t ReplicatedBytes(const TensorMeta&, int) const override { return sizeof(float); }

  RoundSpec Round(int round, const TensorMeta& meta, int, ConstBytes,
                  ConstBytes replicated) const override {
    if (round == 1) return {.dtype = type_, .elems = meta.elems + 1};
    const bool asks = !replicated.empty() && AverageIn(replicated) == 0;
    return {.dtype = DType::kUint32, .op = ReduceOp::kMax, .elems = asks ? 1 : 0};
  }

  Status Fill(int round, const StepView& view, View carrier, ExecContext*) const override {
    view.stats->bytes += carrier.bytes();
    if (round == 0) {
      if (carrier.elems > 0) *carrier.as<uint32_t>() = MagnitudeOf(view);
      return Status();
    }
    EncodeJob job = EncodeJobOf(view, carrier);
    job.e_out = nullptr;  // what is clipped and rounded is lost
    EncodeStats counted;
    job.stats = &counted;
    ActiveIntsgdKernels().encode(ShapeOf(view), job);
    SetFlag(carrier, counted.nonfinite > 0);
    CountInput(view, counted);
    return Status();
  }

  Status Absorb(int round, ConstView reduced, const StepView& view, ExecContext*) const override {
    if (round == 0) {
      if (!reduced.empty())
        std::memcpy(view.agreed.data, reduced.data, static_cast<size_t>(reduced.bytes()));
      return Status();
    }
    const int32_t flag = FlagIn(reduced);
    if (flag < 0 || flag > view.world_size) return ImpossibleSum();
    if (flag > 0) {
      Spoil(DecodeJobOf(view, reduced));
      std::memcpy(view.replicated_out.data, view.replicated_in.data, sizeof(float));
      return Status();
    }
    const IntsgdShape shape = ShapeOf(view);
    if (!ActiveIntsgdKernels().decode(shape, DecodeJobOf(view, reduced))) return ImpossibleSum();
    StoreAverage(view, shape, reduced);
    return Status();
  }

 private:
  static int64_t MostOfSum(DType type) {
    return type == DType::kInt8 ? std::numeric_limits<int8_t>::max()
                                : std::numeric_limits<int32_t>::max();
  }
  int32_t MostOf(int world_size) const {
    return static_cast<int32_t>(std::min(MostOfSum(type_) / world_size, kMostExact));
  }

  // 0: none. Of any bytes whatever; one that has lost digits is none either.
  static double AverageIn(ConstBytes replicated) {
    float average;
    std::memcpy(&average, replicated.data, sizeof average);
    return std::isnormal(average) && average > 0 ? average : 0;
  }

  IntsgdShape ShapeOf(const StepView& view) const {
    IntsgdShape shape = {.type = type_, .most = MostOf(view.world_size)};
    shape.most_of_sum = shape.most * view.world_size;
    const double average = AverageIn(view.replicated_in);
    shape.unit = average > 0 ? UnitFromPast(view, average) : UnitFromMagnitude(view, shape.most);
    shape.inverse_unit = 1.0f / shape.unit;
    return shape;
  }

  static float MagnitudeIn(const StepView& view) {
    float magnitude;
    std::memcpy(&magnitude, view.agreed.data, sizeof magnitude);
    return magnitude;
  }

  // Energy and error only where they are of something that is sent: a rank that is not finite makes
  // all of the sum so, and where that shows before there is a unit, any stands in for it.
  static void CountInput(const StepView& view, const EncodeStats& counted) {
    EncodeStats* stats = view.stats;
    stats->absmax = std::max(stats->absmax, counted.absmax);
    stats->nonfinite += counted.nonfinite;
    const bool has_unit = AverageIn(view.replicated_in) > 0 || std::isfinite(MagnitudeIn(view));
    if (counted.nonfinite > 0 || !has_unit) return;
    stats->sum_p2 += counted.sum_p2;
    stats->sum_err2 += counted.sum_err2;
  }

  // sqrt(2 n r / d): more than kLeastUnit for fewer than 2^70 elements.
  static float UnitFromPast(const StepView& view, double average) {
    const auto elems = static_cast<double>(std::max<int64_t>(view.meta.elems, 1));
    return static_cast<float>(std::sqrt(2.0 * view.world_size * average / elems));
  }

  // So that nothing is clipped.
  static float UnitFromMagnitude(const StepView& view, int32_t most) {
    const float magnitude = MagnitudeIn(view);
    if (!std::isfinite(magnitude)) return 1;  // the flag will say so
    const float bound = std::min(std::fabs(magnitude), kLargestMagnitude);
    return std::max(bound / static_cast<float>(most), kLeastUnit);
  }

  // As bits, which order as the numbers do.
  static uint32_t MagnitudeOf(const StepView& view) {
    InputJob input = InputJobOf(view);
    input.e_out = nullptr;
    const EncodeStats stats = StatsOfInput(input);
    return stats.nonfinite > 0 ? kInfBits : std::bit_cast<uint32_t>(stats.absmax);
  }

  void SetFlag(View carrier, bool nonfinite) const {
    if (type_ == DType::kInt8) {
      carrier.as<int8_t>()[carrier.elems - 1] = static_cast<int8_t>(nonfinite);
    } else {
      carrier.as<int32_t>()[carrier.elems - 1] = static_cast<int32_t>(nonfinite);
    }
  }
  int32_t FlagIn(ConstView reduced) const {
    const int64_t last = reduced.elems - 1;
    return type_ == DType::kInt8 ? reduced.as<int8_t>()[last] : reduced.as<int32_t>()[last];
  }
  static Status ImpossibleSum() {
    return CorruptCarrier("a sum of integers is larger than all ranks together can make it");
  }

  // r' = .9 r + .1 |mean|^2; where there is no r yet, |mean|^2.
  void StoreAverage(const StepView& view, const IntsgdShape& shape, ConstView reduced) const {
    const int64_t elems = reduced.elems - 1;
    const double squares = type_ == DType::kInt8 ? SumOfSquares(reduced.as<int8_t>(), elems)
                                                 : SumOfSquares(reduced.as<int32_t>(), elems);
    const double step = static_cast<double>(shape.unit) / view.world_size;
    const double now = squares * step * step;
    const double past = AverageIn(view.replicated_in);
    const auto average = static_cast<float>(past > 0 ? kPast * past + (1 - kPast) * now : now);
    std::memcpy(view.replicated_out.data, &average, sizeof average);
  }

  const DType type_;
};

StatusOr<Codec> Make(const SpecText& spec) {
  SpecArgs args(spec);
  const bool bytes = args.Choice("bits", {"8", "32"}) == "8";
  const std::string canonical = args.canonical();
  if (args.ReadFeedback(Feedback::kOff) == Feedback::kOn) {
    return Status(gwInvalidArgument, "intsgd does not accept feedback=on",
                  "Its scale is that of earlier steps and may send nothing of this one; "
                  "qsgd(sum=carrier,feedback=on) has the scale of its own step");
  }
  if (!args.status().ok()) return args.status();
  return Codec{.spec = canonical,
               .carrier = std::make_shared<IntsgdCarrier>(bytes ? DType::kInt8 : DType::kInt32),
               .min_numel = kMinNumelOfTensors};
}

}  // namespace

CodecRow IntsgdRow() {
  return {.name = "intsgd",
          .doc =
              "integers under a scale that follows from earlier sums, no round to agree on it, "
              "variance at most unit^2 / 4 per element and rank, unbiased but for clipping, 8 or "
              "32 bits per element; IntSGD, Mishchenko et al. 2022",
          .keys = {"bits"},
          .conformance_specs = {"intsgd", "intsgd(bits=32)"},
          .advice = {.note = "noise about as large as the gradient: mind the last percent"},
          .make = Make};
}

}  // namespace gradwire
