// Data-parallel SGD with momentum: every rank has the whole network and a part of each batch.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "docs/examples/train_fashion_mnist/fashion_data.h"
#include "docs/examples/train_fashion_mnist/gradient_exchange.h"
#include "docs/examples/train_fashion_mnist/mlp.h"
#include "docs/examples/train_fashion_mnist/trainer_options.h"
#include "docs/examples/train_fashion_mnist/wire_counters.h"

namespace example {

// What an evaluation found; equal on all ranks.
struct EvalPoint {
  int64_t step = 0;  // training steps so far
  double epoch = 0;
  double seconds = 0;     // of training so far; evaluation is not counted
  double sent_bytes = 0;  // so far, by the rank that sent most
  // Mean over the training images since the last point; none where no image was trained on.
  std::optional<double> loss;
  double accuracy = 0;  // per cent of the test images
  double images_per_second = 0;
  double seconds_left = 0;
};

struct TrainingResult {
  std::string network;  // "784-256-128-10"
  std::vector<EvalPoint> points;
  int64_t steps = 0;
  WireBytes sent;  // by this rank, over all training steps
};

class Trainer {
 public:
  // `comm` outlives this object. interface: see ReadWireBytes.
  Trainer(const TrainerOptions& options, Communicator* comm, std::string interface);

  // Collective. `on_point` is called on every rank after each evaluation.
  TrainingResult Run(const std::function<void(const EvalPoint&)>& on_point);

  int64_t total_steps() const { return total_steps_; }
  // FNV-1a, 64 bits, of the weights' bytes.
  uint64_t WeightsDigest();

 private:
  void Fill(const ImageSet& set, const std::vector<int64_t>& positions);
  void Step(int64_t step);
  gwStepOutcome_t TryStep(int64_t step);
  void Update(int64_t step);
  void TrainUntil(int64_t end, TrainingResult* result);
  EvalPoint Evaluate(const TrainingResult& result);
  double TestAccuracy();

  TrainerOptions options_;
  Communicator* comm_;  // outlives us, see the constructor
  std::string interface_;
  ImageSet train_;
  ImageSet test_;
  ShardedSampler sampler_;
  Mlp net_;
  GradientExchange exchange_;
  std::vector<float> momentum_;
  Batch batch_;
  int64_t total_steps_;

  int64_t done_steps_ = 0;
  double train_seconds_ = 0;
  Score since_last_point_;
  int64_t images_since_last_point_ = 0;
};

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_TRAINER_H_
