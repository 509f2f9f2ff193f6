#include "runtime/operations/tensor_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compress/registry.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

std::string TextOf(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data), static_cast<size_t>(bytes.size)};
}

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
  s.Add("none", {100});
  s.Add("powersgd", {32, 64});
  EXPECT_EQ(s.Groups(), "0 1 2 3");
}

// A collective of their own takes all of them.
TEST(TensorGroups, ManyExactTensorsDoNotRide) {
  Submission s;
  s.Add("powersgd", {64, 64});
  for (int i = 0; i < 3; ++i) s.Add("none", {1 << 14});
  EXPECT_EQ(s.Groups(), "0 1 2 3");
  s.Add("none", {1 << 14});
  EXPECT_EQ(s.Groups(), "0 1 2 3 4") << "as many as may";
  s.Add("none", {1});
  EXPECT_EQ(s.Groups(), "0,1 2 3 4 5");
}

// In float32 they are twice as long.
TEST(TensorGroups, OfHalfTypesHalfAsManyRide) {
  Submission s;
  s.Add("powersgd", {64, 64}, DType::kBfloat16);
  s.Add("none", {1 << 15}, DType::kBfloat16);
  EXPECT_EQ(s.Groups(), "0 1");
  s.Add("none", {1}, DType::kBfloat16);
  EXPECT_EQ(s.Groups(), "0,1 2");
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

// A matrix, by top-k as a rule, and a bias that may ride beside it, over the engine.
class RidersTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr int64_t kElems = 1000, kMatrix = 2048;

  explicit RidersTest(const std::string& bias_spec = "topk(0.1)",
                      const std::string& weight_spec = "topk(0.1)") {
    for (int r = 0; r < kRanks; ++r) {
      weight_.push_back(job_[r].Register("weight", kMatrix, DType::kFloat32, weight_spec));
      bias_.push_back(job_[r].Register("bias", kElems, DType::kFloat32, bias_spec));
      for (int64_t i = 0; i < kMatrix; ++i) {
        matrices_[r].push_back(static_cast<float>((i * 7 + r) % 101) - 50);
      }
      for (int64_t i = 0; i < kElems; ++i) {
        grads_[r].push_back(static_cast<float>((i * (r + 3)) % 41) - 20);
      }
    }
  }

  // Both tensors in one submission. The operations of the last rank.
  Operations RunStep() {
    const uint16_t turn = job_[0].turn();
    const StepContext step = {.number = turn + uint64_t{1}, .turn = turn};
    Operations operations;
    for (int r = 0; r < kRanks; ++r) {
      const auto bytes_of = [](std::vector<float>& floats) {
        return reinterpret_cast<std::byte*>(floats.data());
      };
      const std::vector<SubmittedTensor> submitted = {
          {weight_[r], bytes_of(matrices_[r]), bytes_of(sums_[r])},
          {bias_[r], bytes_of(grads_[r]), bytes_of(outs_[r])}};
      operations = job_[r].SubmitTensors(submitted, ReduceOp::kSum, step);
      job_[r].EndStep(step);
    }
    const auto all_done = [&] {
      for (int r = 0; r < kRanks; ++r) {
        if (job_[r].turn() == turn) return false;
      }
      return true;
    };
    EXPECT_TRUE(job_.RunUntil(all_done, 600 * kNsPerSecond));
    EXPECT_EQ(job_[0].results().back().outcome, StepOutcome::kCommit);
    return operations;
  }
  void TakeRung(const std::string& spec) {
    for (TensorState* bias : bias_) bias->TakeRung(*MakeCodec(spec), kRanks);
  }

  SimJob job_{{.world_size = kRanks}};
  std::vector<TensorState*> bias_, weight_;
  std::vector<std::vector<float>> grads_{kRanks}, matrices_{kRanks};
  std::vector<std::vector<float>> outs_{kRanks, std::vector<float>(kElems)};
  std::vector<std::vector<float>> sums_{kRanks, std::vector<float>(kMatrix)};
};

class ResidualRidersTest : public RidersTest {
 protected:
  ResidualRidersTest() : RidersTest("efsign") {}
};

// One operation, the exact sum, and what an earlier codec kept back is sent.
TEST_F(ResidualRidersTest, AreSummedExactly) {
  EXPECT_EQ(RunStep().size(), 2u);
  std::vector<double> expected(kElems);
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(bias_[r]->residual.allocated());
    for (int64_t i = 0; i < kElems; ++i) {
      expected[i] += grads_[r][i] + bias_[r]->residual.live().as<float>()[i];
    }
    JobRank::SetSpec(bias_[r], "none");
  }
  EXPECT_EQ(RunStep().size(), 1u);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(bias_[r]->residual.allocated()) << "sent";
    for (int64_t i = 0; i < kElems; ++i) ASSERT_NEAR(outs_[r][i], expected[i], 1e-4);
  }
}

// What the rung before has kept is neither voted on nor flipped: the slot that is not live may
// hold anything, and another thing on each rank.
TEST_F(RidersTest, LeaveAloneWhatAnotherRungHasKept) {
  RunStep();
  RunStep();
  TakeRung("none");
  std::vector<std::string> kept;
  for (int r = 0; r < kRanks; ++r) {
    StateSlots& slots = bias_[r]->replicated;
    ASSERT_TRUE(slots.allocated());
    slots.next().data[0] = static_cast<std::byte>(r);
    kept.push_back(TextOf(slots.live()));
  }
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(RunStep().size(), 1u);
    for (int r = 0; r < kRanks; ++r) EXPECT_EQ(TextOf(bias_[r]->replicated.live()), kept[r]);
  }
}

// Nothing of a rider is encoded or lost: its host alone has figures.
TEST_F(RidersTest, AreNotChargedWithWhatTheirHostCosts) {
  TakeRung("none");
  const Operations operations = RunStep();
  ASSERT_EQ(operations.size(), 1u);
  const TensorState &bias = *bias_.back(), &weight = *weight_.back();
  EXPECT_EQ(bias.ops, 1);
  EXPECT_EQ(bias.last_relerr, 0);
  EXPECT_EQ(bias.payload_bytes, 0);
  EXPECT_EQ(bias.encode_ns + bias.decode_ns, 0);
  EXPECT_GT(weight.last_relerr, 0);
  EXPECT_EQ(weight.payload_bytes, operations[0]->stats.payload_bytes);
  EXPECT_GT(weight.payload_bytes, 0);
}

class TwoCodecsTest : public RidersTest {
 protected:
  TwoCodecsTest() : RidersTest("bf16(feedback=on)", "qsgd(bits=2,feedback=on)") {}
};

// One of them loses a hundred times what the other does, in eight times fewer bits: their
// controller and their ledger must not see the mean of both.
TEST_F(TwoCodecsTest, OfOneOperationAreChargedWithTheirOwnFigures) {
  const Operations operations = RunStep();
  ASSERT_EQ(operations.size(), 1u);
  const TensorState &bias = *bias_.back(), &weight = *weight_.back();
  EXPECT_GT(weight.last_relerr, 0.2);
  EXPECT_LT(bias.last_relerr, 0.004) << "2^-8 an element at most";
  EXPECT_GT(bias.payload_bytes, weight.payload_bytes);
  EXPECT_EQ(bias.payload_bytes + weight.payload_bytes, operations[0]->stats.payload_bytes);
}

TEST(DitherStepOf, StepsThatDifferInTheirHighBitsAloneDrawOtherNumbers) {
  const TensorState tensor;
  constexpr int kEpochs = 100, kBatches = 100;
  std::set<uint32_t> drawn;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      const uint32_t step = DitherStepOf(tensor, epoch << 32 | batch);
      EXPECT_EQ(step & kOutsideStep, 0u);
      drawn.insert(step);
    }
  }
  EXPECT_EQ(drawn.size(), size_t{kEpochs * kBatches});
  EXPECT_EQ(DitherStepOf(tensor, 7), 7u);
  EXPECT_EQ(DitherStepOf(tensor, kOutsideStep - 1), kOutsideStep - 1);
}

}  // namespace
}  // namespace gradwire
