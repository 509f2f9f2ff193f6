#include "cli/perf/error_law.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "compress/registry.h"

namespace gradwire {
namespace {

// Two encodings: one of each rank's input and one of their sum. Bounds are in units of the sum;
// the last factor covers the float32 additions.
constexpr double kSlack = 1.001;

// What the bound of an element may depend on, summed or taken over the ranks.
struct Element {
  double sum_of_magnitudes = 0;  // of the ranks' values
  double sum_of_scales = 0;      // of the largest magnitudes near it, one per rank
  double sum = 0;                // the true sum
  double scale_of_sum = 0;       // largest magnitude of the true sum near it
  double ranks = 1;
};

using Bound = std::function<double(const Element&)>;

struct LawRow {
  std::string_view codec;
  Bound (*make)(const SpecText& spec);
  // Of the relative error of the whole, for normal inputs and many elements.
  double max_relerr = std::numeric_limits<double>::infinity();
  // How much of the true sum must be in the result: <result, truth> / |truth|^2. Tells noise around
  // the truth, however large, from something else. 0: any.
  double min_projection = 0;
  // An element is the sum of some of the ranks' values: see IsSumOfSome.
  bool sums_some = false;
};

// Rounding to a format with so many bits of precision, the leading one included.
template <int kPrecisionBits>
Bound Rounding(const SpecText&) {
  return [unit = std::ldexp(1.0, -kPrecisionBits)](const Element& e) {
    const double workers = unit * e.sum_of_magnitudes;
    return kSlack * (workers + unit * (std::abs(e.sum) + workers)) + 1e-6;
  };
}

int IntArgument(const SpecText& spec, std::string_view key, int otherwise) {
  for (const auto& [name, value] : spec.args) {
    int number = 0;
    if (name == key &&
        std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc()) {
      return number;
    }
  }
  return otherwise;
}

// Less than one level off at each encoding.
Bound Levels(const SpecText& spec) {
  const double levels = std::ldexp(1.0, IntArgument(spec, "bits", 8) - 1) - 1;
  return [levels](const Element& e) {
    const double workers = e.sum_of_scales / levels;
    return kSlack * (workers + (e.scale_of_sum + workers) / levels);
  };
}

// A sign, or a zero, times a magnitude of the block: off by no more than the block's largest
// magnitude, for each rank's input and for the sum of what was decoded or the magnitude of another
// rank. The ranks' blocks are of one size here: see pattern.h.
Bound Signs(const SpecText&) {
  return [](const Element& e) { return kSlack * 2 * e.sum_of_scales; };
}

// Zeros would be within Signs. The sum of many ranks' signs, y, is normal and correlates with the
// true sum by sqrt(2 / pi); the sign of y with the mean of |y| leaves sqrt(1 - (2 / pi)^2) of it.
// Fewer ranks leave less, since an owner's own part is encoded once. 2 % for the test data.
constexpr double kSignsRelerr = 1.02 * 0.77118;

// Each element is the sum over all ranks, over some or over none. IsSumOfSome looks closer.
Bound Chosen(const SpecText&) {
  return [](const Element& e) { return kSlack * e.sum_of_magnitudes + 1e-6; };
}

// A projection on few dimensions may put anything into an element, but nothing into the whole.
Bound Anything(const SpecText&) {
  return [](const Element&) { return std::numeric_limits<double>::infinity(); };
}

// A sign for each rank, whatever the size of the sum.
Bound Majority(const SpecText&) {
  return [](const Element& e) { return kSlack * std::abs(e.sum) + e.ranks; };
}

// Little of a normal array is in few elements or dimensions, but not nothing.
constexpr double kSomething = 1e-4;

// Clipping takes less than this from normal values at any clip from 1 on; rounding takes nothing.
// intsgd is ternary at many ranks, and clips nothing of a tensor that is new.
constexpr double kTernaryProjection = 0.6;

constexpr std::array kLaws = {
    LawRow{"none", Rounding<23>},
    LawRow{"bf16", Rounding<8>},
    LawRow{"fp16", Rounding<11>},
    LawRow{"qsgd", Levels},
    LawRow{"efsign", Signs, kSignsRelerr},
    LawRow{.codec = "terngrad", .make = Signs, .min_projection = kTernaryProjection},
    LawRow{.codec = "intsgd", .make = Anything, .min_projection = kTernaryProjection},
    LawRow{.codec = "signsgd", .make = Majority, .min_projection = kSomething},
    LawRow{.codec = "topk",
           .make = Chosen,
           .max_relerr = 1,
           .min_projection = kSomething,
           .sums_some = true},
    LawRow{.codec = "randk", .make = Anything, .min_projection = kSomething},
    LawRow{.codec = "powersgd", .make = Anything, .max_relerr = 1, .min_projection = kSomething},
    LawRow{.codec = "acp", .make = Anything, .max_relerr = 1, .min_projection = kSomething}};

// Null: this codec's law is not known here.
const LawRow* LawOf(const SpecText& spec) {
  const auto* row = std::find_if(kLaws.begin(), kLaws.end(),
                                 [&](const LawRow& law) { return law.codec == spec.name; });
  return row == kLaws.end() ? nullptr : row;
}

// More have too many sums to try.
constexpr double kMaxRanksTried = 8;

// Whether `sum` is that of all the values, of some or of none.
bool IsSumOfSome(std::span<const double> values, double sum, double tolerance) {
  if (std::abs(sum) <= tolerance) return true;
  if (values.empty()) return false;
  const auto others = values.subspan(1);
  return IsSumOfSome(others, sum - values[0], tolerance) || IsSumOfSome(others, sum, tolerance);
}

// Few elements scatter around the law.
double Scatter(int64_t elems) { return 2 / std::sqrt(static_cast<double>(elems)); }

// Largest magnitude in each block of the repeated pattern, blocks counted from element 0.
std::vector<double> BlockMaxima(const Pattern& pattern, int64_t elems, int64_t block) {
  std::vector<double> maxima(static_cast<size_t>((elems + block - 1) / block));
  const auto period = static_cast<int64_t>(pattern.tile.size());
  for (int64_t i = 0, at = 0; i < elems; ++i) {
    double& most = maxima[static_cast<size_t>(i / block)];
    most = std::max(most, std::abs(pattern.tile[static_cast<size_t>(at)]));
    if (++at == period) at = 0;
  }
  // The codec's blocks begin anew at the borders of shards: each lies in two neighbours of these.
  std::vector<double> near(maxima.size());
  for (size_t b = 0; b < maxima.size(); ++b) {
    near[b] =
        std::max({maxima[b], maxima[b > 0 ? b - 1 : b], maxima[b + 1 < maxima.size() ? b + 1 : b]});
  }
  return near;
}

// The truth about the elements of an all-reduce, as sums over the ranks.
class Truth {
 public:
  Truth(const std::vector<Pattern>& by_rank, int64_t elems, int64_t block)
      : by_rank_(by_rank),
        block_(block),
        ranks_(static_cast<double>(by_rank.size())),
        sum_(Reduced(by_rank, ReduceOp::kSum)) {
    std::vector<Pattern> magnitudes = by_rank;
    for (Pattern& pattern : magnitudes) {
      for (double& value : pattern.tile) value = std::abs(value);
    }
    magnitudes_ = Reduced(magnitudes, ReduceOp::kSum);
    scales_ = BlockMaxima(by_rank[0], elems, block);
    for (size_t r = 1; r < by_rank.size(); ++r) {
      const std::vector<double> more = BlockMaxima(by_rank[r], elems, block);
      for (size_t b = 0; b < more.size(); ++b) scales_[b] += more[b];
    }
    sum_scales_ = BlockMaxima(sum_, elems, block);
  }

  Element at(int64_t i) const {
    const auto b = static_cast<size_t>(i / block_);
    return {magnitudes_.at(i), scales_[b], sum_.at(i), sum_scales_[b], ranks_};
  }

  std::vector<double> OfEachRank(int64_t i) const {
    std::vector<double> values;
    for (const Pattern& pattern : by_rank_) values.push_back(pattern.at(i));
    return values;
  }

 private:
  const std::vector<Pattern>& by_rank_;  // the caller's
  int64_t block_;
  double ranks_;
  Pattern sum_, magnitudes_;
  std::vector<double> scales_, sum_scales_;
};

// Tells what an element of the result may be.
class Judge {
 public:
  Judge(const LawRow& law, const SpecText& spec, const Truth& truth)
      : law_(law), bound_(law.make(spec)), truth_(truth) {}

  // Of element i, of which `e` is the truth: `unit` times a sum, rounded to within `rounding`.
  bool Allows(int64_t i, const Element& e, double got, double unit, double rounding) const {
    if (!std::isfinite(got) ||
        !(std::abs(got - unit * e.sum) <= unit * bound_(e) + rounding * std::abs(got))) {
      return false;
    }
    if (!law_.sums_some || e.ranks > kMaxRanksTried || got == 0) return true;
    const double sum = got / unit, last = rounding * std::abs(sum);
    // A tensor too small for the codec is added in its own type, with a rounding at every addition.
    if (std::abs(sum - e.sum) <= e.ranks * rounding * e.sum_of_magnitudes + last) return true;
    // Room for float32 additions and the factor of an average.
    const double additions = std::ldexp(e.ranks, -23) * e.sum_of_magnitudes + 1e-6;
    return IsSumOfSome(truth_.OfEachRank(i), sum, additions + last);
  }

 private:
  const LawRow& law_;
  const Bound bound_;
  const Truth& truth_;
};

}  // namespace

StatusOr<ErrorFound> CompareWithTruth(std::string_view spec, const std::vector<Pattern>& by_rank,
                                      ReduceOp op, ConstView out) {
  const StatusOr<SpecText> parsed = ParseSpecText(spec);
  if (!parsed.ok()) return parsed.status();
  const LawRow* law = LawOf(*parsed);
  const Truth truth(by_rank, out.elems, std::max(IntArgument(*parsed, "block", 256), 1));
  const auto judge = law != nullptr ? std::optional<Judge>({*law, *parsed, truth}) : std::nullopt;
  const double unit = op == ReduceOp::kAvg ? 1.0 / static_cast<double>(by_rank.size()) : 1.0;
  // Writing the result in the tensor's own type rounds once more.
  const double last = out.dtype == DType::kFloat32   ? 0
                      : out.dtype == DType::kFloat16 ? 0x1p-11
                                                     : 0x1p-8;
  ErrorFound found = {.wrong = judge ? 0 : -1};
  double error2 = 0, energy = 0, product = 0;
  for (int64_t i = 0; i < out.elems; ++i) {
    const Element e = truth.at(i);
    const double got = ReadElement(out, i), error = std::abs(got - unit * e.sum);
    error2 += error * error;
    energy += unit * e.sum * unit * e.sum;
    product += got * unit * e.sum;
    if (judge && !judge->Allows(i, e, got, unit, last)) ++found.wrong;
  }
  found.relerr = energy > 0 ? std::sqrt(error2 / energy) : 0;
  // No single element can be blamed.
  const double scatter = Scatter(out.elems);
  if (law != nullptr && energy > 0 &&
      (found.relerr > law->max_relerr + scatter ||
       (law->min_projection > 0 &&
        product <= std::max(law->min_projection - scatter, 0.0) * energy))) {
    found.wrong = out.elems;
  }
  return found;
}

}  // namespace gradwire
