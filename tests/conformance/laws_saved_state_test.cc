// Conservation as a program sees it that knows the C API only: what gwStateSave writes after each
// step holds exactly what the outputs lack.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/rng.h"
#include "base/view.h"
#include "compress/registry.h"
#include "runtime/state/tensor_state.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;

// Two of them are matrices that low rank takes, one of more dimensions.
const std::vector<int64_t> kShapes[] = {{3001}, {32, 65}, {257}, {1}, {0}, {900}, {7, 3, 64}};
constexpr size_t kTensors = std::size(kShapes);
constexpr int kSteps = 40;

int64_t ElemsOf(size_t t) {
  return std::accumulate(kShapes[t].begin(), kShapes[t].end(), int64_t{1}, std::multiplies());
}

std::string NameOf(size_t t) { return "w" + std::to_string(t); }

// What all ranks do in one step.
struct StepPlan {
  std::vector<std::string> specs;           // by tensor
  std::vector<std::vector<size_t>> groups;  // of tensors, in the order of submission
};

// Those that factor matrices too, or they alone.
std::vector<std::string> ConformanceSpecs(bool of_matrices) {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (!of_matrices || MakeCodec(spec)->min_dims > 1) specs.push_back(spec);
    }
  }
  return specs;
}

// Groups and their order are drawn anew for each step, and some codecs.
std::vector<StepPlan> DrawPlans(RandomStream* random) {
  const std::vector<std::string> all = ConformanceSpecs(false),
                                 of_matrices = ConformanceSpecs(true);
  std::vector<StepPlan> plans;
  for (int step = 0; step < kSteps; ++step) {
    StepPlan plan = plans.empty() ? StepPlan{.specs = std::vector<std::string>(kTensors, "none")}
                                  : StepPlan{.specs = plans.back().specs};
    std::vector<size_t> order;
    for (size_t t = 0; t < kTensors; ++t) {
      const bool factors = kShapes[t].size() > 1 && random->Below(2) == 0;
      const std::vector<std::string>& specs = factors ? of_matrices : all;
      if (random->Below(3) == 0) plan.specs[t] = specs[random->Below(specs.size())];
      order.push_back(t);
    }
    std::shuffle(order.begin(), order.end(), *random);
    for (size_t t : order) {
      if (plan.groups.empty() || random->Below(2) == 0) plan.groups.emplace_back();
      plan.groups.back().push_back(t);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

// What one rank gave and got in a step, and held after it; by tensor.
struct StepRecord {
  std::vector<Floats> grads = std::vector<Floats>(kTensors);
  std::vector<Floats> outs = std::vector<Floats>(kTensors);
  std::vector<Floats> residuals = std::vector<Floats>(kTensors);  // empty: nothing is kept back
};

// As it is registered, with the codec in effect.
std::unique_ptr<TensorState> TensorOf(size_t t, const std::string& spec) {
  auto tensor = std::make_unique<TensorState>();
  tensor->name = NameOf(t);
  tensor->elems = ElemsOf(t);
  tensor->shape = kShapes[t];
  const Codec codec = *MakeCodec(spec);
  tensor->codec = ExemptionFrom(codec, *tensor).empty() ? codec : *MakeCodec("none");
  return tensor;
}

// The residuals in a saved state.
void ReadResiduals(const std::string& state, int rank, int world_size,
                   const std::vector<std::string>& specs, std::vector<Floats>* out) {
  TensorTable table;
  std::vector<TensorState*> tensors;
  for (size_t t = 0; t < kTensors; ++t) {
    StatusOr<TensorState*> added = table.Add(TensorOf(t, specs[t]));
    ASSERT_TRUE(added.ok()) << added.status().ToString();
    tensors.push_back(*added);
  }
  const Status loaded = table.Load(TextBytes(state), rank, world_size, /*transaction=*/true);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  for (size_t t = 0; t < kTensors; ++t) {
    const ConstView e = tensors[t]->residual.live();
    (*out)[t].assign(e.as<float>(), e.as<float>() + e.elems);
  }
}

// One rank's program.
class Rank {
 public:
  Rank(gwComm_t comm, int rank, int world_size, uint64_t seed)
      : comm_(comm), rank_(rank), world_size_(world_size), random_(seed, 1 + rank) {
    for (size_t t = 0; t < kTensors; ++t) {
      EXPECT_EQ(
          gwTensorRegister(comm, NameOf(t).c_str(), kShapes[t].data(),
                           static_cast<int>(kShapes[t].size()), gwFloat32, nullptr, &tensors_[t]),
          gwSuccess)
          << gwGetLastError(comm);
    }
  }

  void Step(uint64_t number, const StepPlan& plan, StepRecord* record) {
    for (size_t t = 0; t < kTensors; ++t) {
      ASSERT_EQ(gwTensorSetSpec(tensors_[t], plan.specs[t].c_str()), gwSuccess)
          << gwGetLastError(comm_);
      for (int64_t i = 0; i < ElemsOf(t); ++i) record->grads[t].push_back(DrawGradient());
      record->outs[t].resize(ElemsOf(t));
    }
    ASSERT_EQ(gwStepBegin(comm_, number), gwSuccess) << gwGetLastError(comm_);
    ASSERT_NO_FATAL_FAILURE(Submit(plan, record));
    gwStepOutcome_t outcome = gwStepAborted;
    ASSERT_EQ(gwStepEnd(comm_, &outcome), gwSuccess) << gwGetLastError(comm_);
    ASSERT_EQ(outcome, gwStepCommitted) << gwGetLastError(comm_);
    ReadResiduals(SavedState(comm_), rank_, world_size_, plan.specs, &record->residuals);
  }

 private:
  // Of many magnitudes.
  float DrawGradient() {
    const double unit = 2 * random_.Unit() - 1;
    return static_cast<float>(unit * unit * unit);
  }

  void Submit(const StepPlan& plan, StepRecord* record) {
    std::vector<gwRequest_t> requests;
    for (const std::vector<size_t>& group : plan.groups) {
      std::vector<gwTensor_t> tensors;
      std::vector<const void*> send;
      std::vector<void*> recv;
      for (size_t t : group) {
        tensors.push_back(tensors_[t]);
        send.push_back(record->grads[t].data());
        recv.push_back(record->outs[t].data());
      }
      gwRequest_t request = nullptr;
      ASSERT_EQ(gwAllReduceTensors(static_cast<int>(group.size()), tensors.data(), send.data(),
                                   recv.data(), gwSum, nullptr, &request),
                gwSuccess)
          << gwGetLastError(comm_);
      requests.push_back(request);
    }
    for (gwRequest_t request : requests) {
      EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm_);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
    }
  }

  const gwComm_t comm_;
  const int rank_, world_size_;
  RandomStream random_;
  gwTensor_t tensors_[kTensors] = {};
};

// One tensor in one step: residuals before, gradients, output, residuals after; by rank.
struct Balance {
  std::vector<const Floats*> before, grads, after;
  const Floats* out = nullptr;
  bool of_factors = false;
};

// sum(g + e) = out + sum e' but for the roundings of float32: one of each g + e, one of each e',
// and n of the partial sums and the owner's error. None of these values exceeds
// A = sum(|g| + |e| + |e'|) by more than such a rounding, so an element is off by at most
// n + 2 times A * 2^-24; 2^-23 leaves room for products of roundings. That is far below the
// 1e-6 * sqrt(elements) that statistics would ask for. What is a product of factors is rounded by
// the size of all that went in, with each column.
void CheckConserves(const Balance& b) {
  const auto at = [](const Floats& e, size_t i) { return e.empty() ? 0.0 : double{e[i]}; };
  const size_t n = b.grads.size();
  double energy = 0;
  for (size_t r = 0; b.of_factors && r < n; ++r) {
    for (size_t i = 0; i < b.out->size(); ++i)
      energy += std::pow((*b.grads[r])[i] + at(*b.before[r], i), 2);
  }
  const double rounding = 1e-6 * std::sqrt(static_cast<double>(n) * energy);
  for (size_t i = 0; i < b.out->size(); ++i) {
    double in = 0, held = (*b.out)[i], all = 0;
    for (size_t r = 0; r < n; ++r) {
      const double g = (*b.grads[r])[i], e = at(*b.before[r], i), kept = at(*b.after[r], i);
      in += g + e;
      held += kept;
      all += std::abs(g) + std::abs(e) + std::abs(kept);
    }
    ASSERT_NEAR(held, in, static_cast<double>(n + 2) * all * 0x1p-23 + rounding) << "element " << i;
  }
}

bool EstimatesSum(const Codec& codec) {
  return (codec.carrier ? codec.carrier->traits() : codec.payload->traits()).estimates_sum;
}

void CheckRun(const std::vector<StepPlan>& plans,
              const std::vector<std::vector<StepRecord>>& ranks) {
  const StepRecord nothing;
  for (size_t step = 0; step < plans.size(); ++step) {
    for (size_t t = 0; t < kTensors; ++t) {
      const std::string& spec = plans[step].specs[t];
      SCOPED_TRACE(fmt::format("step {}, tensor {}, {}", step, t, spec));
      const Codec codec = TensorOf(t, spec)->codec;
      const bool feedback = codec.feedback == Feedback::kOn;
      Balance b = {.out = &ranks[0][step].outs[t], .of_factors = codec.min_dims > 1};
      for (const std::vector<StepRecord>& mine : ranks) {
        b.before.push_back(step == 0 ? &nothing.residuals[t] : &mine[step - 1].residuals[t]);
        b.grads.push_back(&mine[step].grads[t]);
        b.after.push_back(&mine[step].residuals[t]);
        ASSERT_EQ(mine[step].residuals[t].size(), feedback ? ElemsOf(t) : 0);
        ASSERT_EQ(mine[step].outs[t], *b.out) << "replicas differ";
      }
      // Codecs without feedback lose what they round off; exact ones do not. Momentum adds to what
      // it is given.
      if ((feedback && EstimatesSum(codec)) || codec.spec == "none") {
        ASSERT_NO_FATAL_FAILURE(CheckConserves(b));
      }
    }
  }
}

TEST(SavedState, HoldsWhatTheOutputsLack) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed());
  for (int n : {2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", n));
    const std::vector<StepPlan> plans = DrawPlans(&random);
    const uint64_t seed = random();
    std::vector<std::vector<StepRecord>> records(n, std::vector<StepRecord>(kSteps));
    RunRanks(n, "slice_elems=512", [&](int rank, gwComm_t comm) {
      Rank mine(comm, rank, n, seed);
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_NO_FATAL_FAILURE(mine.Step(step, plans[step], &records[rank][step]));
      }
    });
    ASSERT_FALSE(HasFailure());
    ASSERT_NO_FATAL_FAILURE(CheckRun(plans, records));
  }
}

}  // namespace
}  // namespace gradwire
