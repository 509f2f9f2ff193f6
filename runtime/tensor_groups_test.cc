#include "runtime/tensor_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/registry.h"
#include "runtime/sim_job.h"

namespace gradwire {
namespace {

// Tensors in the order in which they are submitted.
class Submission {
 public:
  void Add(const std::string& spec, std::vector<int64_t> shape, DType dtype = DType::kFloat32) {
    auto tensor = std::make_unique<TensorState>();
    tensor->name = std::to_string(tensors_.size());
    tensor->elems = 1;
    for (int64_t length : shape) tensor->elems *= length;
    tensor->shape = std::move(shape);
    tensor->dtype = dtype;
    tensor->SetCodec(*MakeCodec(spec));
    submitted_.push_back({.tensor = tensor.get()});
    tensors_.push_back(std::move(tensor));
  }

  // "0 2,1": the first and the third together, then the second.
  std::string Groups() const {
    std::string text;
    for (const std::vector<SubmittedTensor>& group : SplitGroup(submitted_, 4)) {
      if (!text.empty()) text += ",";
      for (const SubmittedTensor& submitted : group) {
        if (&submitted != &group.front()) text += " ";
        text += submitted.tensor->name;
      }
    }
    return text;
  }

 private:
  std::vector<std::unique_ptr<TensorState>> tensors_;
  std::vector<SubmittedTensor> submitted_;
};

TEST(TensorGroups, SmallExactTensorsRideAlongInOrder) {
  Submission s;
  s.Add("none", {64});
  s.Add("powersgd", {64, 64});
  s.Add("none", {1 << 20});  // too long
  s.Add("none", {100});
  s.Add("powersgd", {32, 64});
  EXPECT_EQ(s.Groups(), "0 1 3 4,2");
}

TEST(TensorGroups, NobodyRidesWhereNoRoundCanTakeThem) {
  Submission s;
  s.Add("none", {64});
  s.Add("signsgd", {4096});                             // sums integers
  s.Add("efsign", {4096});                              // payloads
  s.Add("topk(agreement=gather)", {4096});              // sums nothing
  s.Add("topk", {4096}, DType::kBfloat16);              // of another type
  s.Add("qsgd(sum=carrier)", {4096}, DType::kFloat32);  // its last round sums integers
  EXPECT_EQ(s.Groups(), "0,1,2,3,4,5");
}

TEST(TensorGroups, ExactTensorsByThemselvesAreAsBefore) {
  Submission s;
  s.Add("none", {64});
  s.Add("none", {4096});
  s.Add("none", {64}, DType::kFloat16);
  EXPECT_EQ(s.Groups(), "0 1,2");
}

// Over the engine: one operation, the exact sum, and what an earlier codec kept back is sent.
TEST(TensorGroups, RidersAreSummedExactly) {
  constexpr int kRanks = 3;
  constexpr int64_t kElems = 1000, kMatrix = 2048;
  SimJob job({.world_size = kRanks});
  std::vector<TensorState*> bias, weight;
  std::vector<std::vector<float>> grads(kRanks), outs(kRanks), matrices(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    weight.push_back(job[r].Register("weight", kMatrix, DType::kFloat32, "topk(0.1)"));
    bias.push_back(job[r].Register("bias", kElems, DType::kFloat32, "efsign"));
    matrices[r].assign(kMatrix, 1.0f);
    outs[r].resize(kElems);
    for (int64_t i = 0; i < kElems; ++i) {
      grads[r].push_back(static_cast<float>((i * (r + 3)) % 41) - 20);
    }
  }
  size_t operations = 0;
  const auto run_step = [&] {
    const uint16_t turn = job[0].turn();
    for (int r = 0; r < kRanks; ++r) {
      auto* matrix = reinterpret_cast<std::byte*>(matrices[r].data());
      const std::vector<SubmittedTensor> submitted = {
          {weight[r], matrix, matrix},
          {bias[r], reinterpret_cast<const std::byte*>(grads[r].data()),
           reinterpret_cast<std::byte*>(outs[r].data())}};
      const StepContext step = {.number = turn + uint64_t{1}, .turn = turn};
      operations = job[r].SubmitTensors(submitted, ReduceOp::kSum, step).size();
      job[r].EndStep(step);
    }
    const auto all_done = [&] {
      for (int r = 0; r < kRanks; ++r) {
        if (job[r].turn() == turn) return false;
      }
      return true;
    };
    ASSERT_TRUE(job.RunUntil(all_done, 600 * kNsPerSecond));
  };
  ASSERT_NO_FATAL_FAILURE(run_step());
  EXPECT_EQ(operations, 2u);
  std::vector<double> expected(kElems);
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(bias[r]->residual.allocated());
    for (int64_t i = 0; i < kElems; ++i) {
      expected[i] += grads[r][i] + bias[r]->residual.live().as<float>()[i];
    }
    JobRank::SetSpec(bias[r], "none");
  }
  ASSERT_NO_FATAL_FAILURE(run_step());
  EXPECT_EQ(operations, 1u);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(bias[r]->residual.allocated()) << "sent";
    for (int64_t i = 0; i < kElems; ++i) ASSERT_NEAR(outs[r][i], expected[i], 1e-4);
  }
}

}  // namespace
}  // namespace gradwire
