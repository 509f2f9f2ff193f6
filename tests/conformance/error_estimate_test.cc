// What the controller takes a codec's error for, from what ranks tell in their votes, against
// float64, over the whole engine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/registry.h"
#include "runtime/controller/bounds.h"
#include "runtime/sim/sim_job.h"
#include "runtime/spec/auto_spec.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int64_t kBoundNs = 600 * kNsPerSecond;
constexpr int64_t kRows = 32, kCols = 128, kElems = kRows * kCols;
// Until what is kept back has settled: the slowest, a rank of the 32 rows, keeps nineteen
// twentieths from one step to the next. And then those that count: acp sends one factor and the
// other in turn, which lose differently.
constexpr int kStepsToSettle = 120, kCountedSteps = 10;
constexpr double kFactor = 1.2;

using Floats = std::vector<float>;

double Normal(RandomStream* random) {
  return std::sqrt(-2 * std::log(1 - random->Unit())) * std::cos(2 * M_PI * random->Unit());
}

double Energy(ConstView floats) {
  double energy = 0;
  for (int64_t i = 0; i < floats.elems; ++i) energy += std::pow(double{floats.as<float>()[i]}, 2);
  return energy;
}

// One tensor that all ranks train, whose gradients correlate.
class Training {
 public:
  Training(int ranks, double correlation, const std::string& spec)
      : random_(TestSeed()),
        correlation_(correlation),
        job_({.world_size = ranks,
              .slice_elems = 1 << 20,
              .seed = static_cast<uint32_t>(random_())}),
        grads_(ranks, Floats(kElems)),
        outs_(ranks, Floats(kElems)) {
    for (int r = 0; r < ranks; ++r) {
      tensors_.push_back(job_[r].Register("w", kElems, DType::kFloat32, "none"));
      tensors_.back()->shape = {kRows, kCols};
      JobRank::SetSpec(tensors_.back(), spec);
    }
  }

  void Step() {
    Draw();
    const uint16_t turn = job_[0].turn();
    const StepContext step = {.number = turn + uint64_t{1}, .turn = turn};
    for (int r = 0; r < job_.size(); ++r) {
      tensors_[r]->tally = {};
      const SubmittedTensor submitted = {tensors_[r],
                                         reinterpret_cast<const std::byte*>(grads_[r].data()),
                                         reinterpret_cast<std::byte*>(outs_[r].data())};
      job_[r].SubmitTensors({&submitted, 1}, ReduceOp::kSum, step);
      job_[r].EndStep(step);
    }
    const auto done = [&] {
      for (int r = 0; r < job_.size(); ++r) {
        if (job_[r].turn() == turn) return false;
      }
      return true;
    };
    ASSERT_TRUE(job_.RunUntil(done, kBoundNs));
    ASSERT_EQ(job_[0].results()[turn].outcome, StepOutcome::kCommit);
  }

  // |out - sum| / |sum|
  double SumError() const {
    double error = 0, energy = 0;
    for (int64_t i = 0; i < kElems; ++i) {
      double sum = 0;
      for (const Floats& grad : grads_) sum += grad[i];
      error += std::pow(outs_[0][i] - sum, 2);
      energy += sum * sum;
    }
    return std::sqrt(error / energy);
  }
  // What all ranks keep back over their gradients.
  double Lag() const {
    double kept = 0, energy = 0;
    for (int r = 0; r < job_.size(); ++r) {
      kept += Energy(tensors_[r]->residual.live());
      energy +=
          Energy({reinterpret_cast<const std::byte*>(grads_[r].data()), kElems, DType::kFloat32});
    }
    return std::sqrt(kept / energy);
  }
  // As the ranks tell it.
  TensorObservation Seen() const {
    TensorObservation all;
    for (const TensorState* tensor : tensors_) {
      all.energy += static_cast<float>(tensor->tally.energy);
      all.error += static_cast<float>(tensor->tally.error);
      all.sum_energy += static_cast<float>(tensor->tally.sum_energy);
    }
    return all;
  }

 private:
  // Rows differ in size, as those of a model do.
  void Draw() {
    for (int64_t i = 0; i < kElems; ++i) {
      const double scale = std::exp2(i / kCols % 5 - 2), common = Normal(&random_);
      for (Floats& grad : grads_) {
        grad[i] = static_cast<float>(scale * (std::sqrt(correlation_) * common +
                                              std::sqrt(1 - correlation_) * Normal(&random_)));
      }
    }
  }

  RandomStream random_;
  const double correlation_;
  SimJob job_;
  std::vector<TensorState*> tensors_;
  std::vector<Floats> grads_, outs_;
};

// Whether the controller may choose it, and the codec has a sum of so many ranks.
bool IsChoosable(const std::string& spec, int ranks) {
  if (!MakeAutoSpec(fmt::format("auto(allow=\"{}\")", spec)).ok()) return false;
  const Codec codec = *MakeCodec(spec);
  constexpr int64_t kShape[] = {kRows, kCols};
  const TensorMeta meta = {.shape = kShape, .elems = kElems};
  return codec.carrier == nullptr || codec.carrier->Check(meta, ranks).ok();
}

double EstimateOverTruth(const Codec& codec, int ranks, double correlation) {
  Training training(ranks, correlation, codec.spec);
  const Candidate candidate = {
      .spec = codec.spec, .feedback = codec.feedback == Feedback::kOn, .errors = ErrorSumOf(codec)};
  for (int step = 0; step < (candidate.feedback ? kStepsToSettle : 1); ++step) training.Step();
  double lost = 0, alike = 0, truth2 = 0;
  for (int step = 0; step < kCountedSteps; ++step) {
    training.Step();
    const Loss loss = LossOf(candidate, training.Seen(), ranks);
    lost += loss.relative_error / kCountedSteps;
    // Where no owner encodes a sum another codec has told of it before.
    alike += loss.alike.value_or(1 + correlation * (ranks - 1)) / kCountedSteps;
    truth2 += std::pow(candidate.feedback ? training.Lag() : training.SumError(), 2);
  }
  return Distance(candidate, lost, {ranks, alike}) / std::sqrt(truth2 / kCountedSteps);
}

std::vector<double> Correlations() {
  return kSanitized ? std::vector<double>{0.8} : std::vector<double>{0.0, 0.8};
}

class ErrorEstimate : public testing::TestWithParam<int> {};

TEST_P(ErrorEstimate, IsNearTheTruth) {
  SCOPED_TRACE(TestSeedText());
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const Codec codec = *MakeCodec(spec);
      if (row.name == "none" || !IsChoosable(spec, GetParam())) continue;
      for (const double correlation : Correlations()) {
        const double ratio = EstimateOverTruth(codec, GetParam(), correlation);
        EXPECT_LE(ratio, kFactor) << spec << ", correlation " << correlation;
        EXPECT_GE(ratio, 1 / kFactor) << spec << ", correlation " << correlation;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ErrorEstimate,
                         testing::ValuesIn(kSanitized ? std::vector<int>{2}
                                                      : std::vector<int>{2, 4, 8, 16}),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace gradwire
