// Training steps over the whole engine, with what came out and what was kept back.
#ifndef GRADWIRE_TESTS_CONFORMANCE_LAW_STEPS_H_
#define GRADWIRE_TESTS_CONFORMANCE_LAW_STEPS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "compress/registry.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {

inline constexpr int64_t kBoundNs = 600 * kNsPerSecond;

using Floats = std::vector<float>;

// Independent normal values, two from each pair of draws (Box and Muller).
inline void DrawNormal(RandomStream* random, Floats* values) {
  for (size_t i = 0; i < values->size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - random->Unit()));
    const double angle = 2 * M_PI * random->Unit();
    (*values)[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values->size()) (*values)[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// float32 tensors on all ranks, and steps over them.
class LawSteps {
 public:
  LawSteps(const JobOptions& options, const std::vector<int64_t>& sizes, uint64_t seed)
      : job_(options), sizes_(sizes), random_(seed), tensors_(options.world_size) {
    for (int r = 0; r < job_.size(); ++r) {
      for (size_t t = 0; t < sizes.size(); ++t) {
        tensors_[r].push_back(
            job_[r].Register("w" + std::to_string(t), sizes[t], DType::kFloat32, "none"));
      }
    }
    grads_.assign(options.world_size, std::vector<Floats>(sizes.size()));
    outs_ = grads_;
    Draw();
  }

  int size() const { return job_.size(); }
  void SetSpec(size_t t, const std::string& spec) {
    for (auto& mine : tensors_) JobRank::SetSpec(mine[t], spec);
  }
  // Independent normal gradients.
  void Draw() {
    for (auto& mine : grads_) {
      for (size_t t = 0; t < sizes_.size(); ++t) {
        mine[t].resize(sizes_[t]);
        DrawNormal(&random_, &mine[t]);
      }
    }
  }
  Floats& grad(int rank, size_t t) { return grads_[rank][t]; }
  const Floats& out(int rank, size_t t) const { return outs_[rank][t]; }
  ConstView residual(int rank, size_t t) const { return tensors_[rank][t]->residual.live(); }
  ConstView local(int rank, size_t t) const { return tensors_[rank][t]->local.live(); }

  // One training step with these groups of tensors.
  void Run(const std::vector<std::vector<size_t>>& groups, ReduceOp op = ReduceOp::kSum) {
    const uint16_t turn = job_[0].turn();
    for (int r = 0; r < size(); ++r) {
      const StepContext step = {.number = turn + uint64_t{1}, .turn = turn};
      for (const std::vector<size_t>& group : groups) {
        std::vector<SubmittedTensor> submitted;
        for (size_t t : group) {
          outs_[r][t].assign(sizes_[t], -7);
          submitted.push_back({tensors_[r][t],
                               reinterpret_cast<const std::byte*>(grads_[r][t].data()),
                               reinterpret_cast<std::byte*>(outs_[r][t].data())});
        }
        job_[r].SubmitTensors(submitted, op, step);
      }
      job_[r].EndStep(step);
    }
    const auto done = [&] {
      for (int r = 0; r < size(); ++r) {
        if (job_[r].turn() == turn) return false;
      }
      return true;
    };
    ASSERT_TRUE(job_.RunUntil(done, kBoundNs));
    ASSERT_EQ(job_[0].results()[turn].outcome, StepOutcome::kCommit)
        << job_[0].results()[turn].reason.ToString();
  }

  // sum(g + e) of a tensor, in float64.
  std::vector<double> GivenIn(size_t t) const {
    std::vector<double> sum(sizes_[t]);
    for (int r = 0; r < job_.size(); ++r) {
      for (int64_t i = 0; i < sizes_[t]; ++i) sum[i] += grads_[r][t][i];
    }
    AddResiduals(t, &sum);
    return sum;
  }
  void AddResiduals(size_t t, std::vector<double>* sum) const {
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      for (int64_t i = 0; i < e.elems; ++i) (*sum)[i] += e.as<float>()[i];
    }
  }
  // The sum over the ranks of |g + e|.
  double NormsOf(size_t t) const {
    double norms = 0;
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      double energy = 0;
      for (int64_t i = 0; i < sizes_[t]; ++i)
        energy += std::pow(grads_[r][t][i] + (e.empty() ? 0.0 : e.as<float>()[i]), 2);
      norms += std::sqrt(energy);
    }
    return norms;
  }
  // Whether so many ranks can sum the tensor by it.
  bool Takes(size_t t, const std::string& spec) const {
    const Codec codec = *MakeCodec(spec);
    return codec.carrier == nullptr ||
           codec.carrier->Check(MetaOf(*tensors_[0][t]), job_.size()).ok();
  }
  double ResidualEnergy(size_t t) const {
    double energy = 0;
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      for (int64_t i = 0; i < e.elems; ++i) energy += std::pow(double{e.as<float>()[i]}, 2);
    }
    return energy;
  }

 private:
  SimJob job_;
  const std::vector<int64_t> sizes_;
  RandomStream random_;
  std::vector<std::vector<TensorState*>> tensors_;
  std::vector<std::vector<Floats>> grads_, outs_;  // by rank and tensor
};

// All specs of the registry that keep something back.
inline std::vector<std::string> SpecsWithFeedback() {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (MakeCodec(spec)->feedback == Feedback::kOn) specs.push_back(spec);
    }
  }
  return specs;
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_LAW_STEPS_H_
