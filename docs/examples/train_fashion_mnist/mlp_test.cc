#include "docs/examples/train_fashion_mnist/mlp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace example {
namespace {

Batch RandomBatch(int inputs, int classes, int images, uint64_t seed) {
  std::mt19937_64 random(seed);
  Batch batch;
  batch.inputs.resize(inputs, images);
  for (float& x : batch.inputs.reshaped()) {
    x = static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f;
  }
  for (int i = 0; i < images; ++i) batch.labels.push_back(static_cast<uint8_t>(random() % classes));
  return batch;
}

// fp32 differences are good to about 1e-3 of the largest gradient at this step size; a wrong sign,
// transpose or missing ReLU mask is off by far more.
TEST(MlpTest, GradientEqualsFiniteDifferences) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Mlp net({7, 6, 5, 4});
    net.Initialise(seed);
    for (float& w : net.all_weights()) w += 0.01f;  // biases away from the ReLU's corner
    const Batch batch = RandomBatch(7, 4, 9, seed + 100);
    net.Forward(batch);
    net.Backward(batch, [](int) {});
    const std::vector<float> gradient(net.all_gradients().begin(), net.all_gradients().end());

    constexpr float kStep = 2e-3f;
    for (size_t i = 0; i < gradient.size(); ++i) {
      float& w = net.all_weights()[i];
      const float kept = w;
      w = kept + kStep;
      const double up = net.Forward(batch).loss;
      w = kept - kStep;
      const double down = net.Forward(batch).loss;
      w = kept;
      const double expected = (up - down) / (2 * kStep) / 9;
      EXPECT_NEAR(gradient[i], expected, 2e-3) << "weight " << i;
    }
  }
}

TEST(MlpTest, ReportsEachLayerWhenItsGradientIsComplete) {
  Mlp net({5, 4, 3, 2});
  net.Initialise(1);
  const Batch batch = RandomBatch(5, 2, 6, 7);
  net.Forward(batch);
  std::vector<int> order;
  std::vector<float> seen(net.all_gradients().size());
  net.Backward(batch, [&](int layer) {
    order.push_back(layer);
    const std::span<float> part = net.gradient(layer);
    const size_t offset = part.data() - net.all_gradients().data();
    std::copy(part.begin(), part.end(), seen.begin() + static_cast<int64_t>(offset));
  });
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(seen, std::vector<float>(net.all_gradients().begin(), net.all_gradients().end()));
}

TEST(MlpTest, LearnsToTellTwoClassesApart) {
  Mlp net({8, 16, 2});
  net.Initialise(3);
  Batch batch = RandomBatch(8, 2, 64, 11);
  for (int i = 0; i < 64; ++i) batch.labels[i] = batch.inputs(0, i) > 0 ? 1 : 0;
  for (int step = 0; step < 300; ++step) {
    net.Forward(batch);
    net.Backward(batch, [](int) {});
    for (size_t i = 0; i < net.all_weights().size(); ++i) {
      net.all_weights()[i] -= 0.5f * net.all_gradients()[i];
    }
  }
  EXPECT_EQ(net.Forward(batch).correct, 64);
}

TEST(MlpTest, SameSeedSameWeights) {
  Mlp a({20, 10, 5}), b({20, 10, 5}), c({20, 10, 5});
  a.Initialise(4);
  b.Initialise(4);
  c.Initialise(5);
  EXPECT_TRUE(std::equal(a.all_weights().begin(), a.all_weights().end(), b.all_weights().begin()));
  EXPECT_FALSE(std::equal(a.all_weights().begin(), a.all_weights().end(), c.all_weights().begin()));
}

}  // namespace
}  // namespace example
