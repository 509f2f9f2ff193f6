#include "docs/examples/train_fashion_mnist/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace example {
namespace {

using Clock = std::chrono::steady_clock;

// Mean and standard deviation of the training images' pixels, from 0 to 1.
constexpr float kPixelMean = 0.286f;
constexpr float kPixelDeviation = 0.353f;

constexpr int64_t kTestBatch = 500;
constexpr int kMaxAttempts = 5;  // at one training step

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string WidthsText(const std::vector<int>& widths) {
  std::string text;
  for (int width : widths) text += (text.empty() ? "" : "-") + std::to_string(width);
  return text;
}

std::vector<int> Widths(const ImageSet& set, const std::vector<int>& hidden) {
  std::vector<int> widths = {set.pixels};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(kClasses);
  return widths;
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, Communicator* comm, std::string interface)
    : options_(options),
      comm_(comm),
      interface_(std::move(interface)),
      train_(LoadImages(options.data, "train")),
      test_(LoadImages(options.data, "t10k")),
      sampler_({.images = train_.size(),
                .batch = options.batch,
                .rank = comm->rank(),
                .ranks = comm->ranks(),
                .seed = options.seed}),
      net_(Widths(train_, options.hidden)),
      exchange_(comm, options.spec),
      momentum_(net_.all_weights().size(), 0.0f),
      total_steps_(
          options.steps > 0
              ? options.steps
              : std::llround(options.epochs * static_cast<double>(sampler_.steps_per_epoch()))) {
  for (int i = 0; i < net_.layers(); ++i) {
    exchange_.Register("layer" + std::to_string(i + 1), net_.gradient(i), net_.outputs(i));
  }
  if (comm_->rank() == 0) net_.Initialise(options_.seed);
  comm_->Broadcast(net_.all_weights());
}

TrainingResult Trainer::Run(const std::function<void(const EvalPoint&)>& on_point) {
  TrainingResult result{.network = WidthsText(Widths(train_, options_.hidden))};
  double eval_seconds = 0;
  for (;;) {
    const auto start = Clock::now();
    EvalPoint point = Evaluate(result);
    eval_seconds += SecondsSince(start);
    const double evals_left = std::ceil(static_cast<double>(total_steps_ - done_steps_) /
                                        static_cast<double>(options_.eval_every));
    const double evals_done = static_cast<double>(result.points.size() + 1);
    if (done_steps_ > 0) {
      point.seconds_left = point.seconds / static_cast<double>(done_steps_) *
                               static_cast<double>(total_steps_ - done_steps_) +
                           eval_seconds / evals_done * evals_left;
    }
    result.points.push_back(point);
    on_point(point);
    // point.seconds is the same on all ranks, so that all of them stop together.
    if (done_steps_ >= total_steps_) break;
    if (options_.max_seconds > 0 && point.seconds >= options_.max_seconds) break;
    TrainUntil(std::min(done_steps_ + options_.eval_every, total_steps_), &result);
  }
  result.steps = done_steps_;
  return result;
}

// The barriers keep evaluation, of this rank and of the others, out of time and bytes.
void Trainer::TrainUntil(int64_t end, TrainingResult* result) {
  comm_->Barrier();
  const WireBytes before = ReadWireBytes(*comm_, interface_);
  const auto start = Clock::now();
  while (done_steps_ < end) Step(done_steps_++);
  comm_->Barrier();
  train_seconds_ += SecondsSince(start);
  result->sent = result->sent + (ReadWireBytes(*comm_, interface_) - before);
}

void Trainer::Step(int64_t step) {
  Fill(train_, sampler_.Batch(step));
  gwStepOutcome_t outcome = gwStepAborted;
  for (int i = 0; i < kMaxAttempts && outcome == gwStepAborted; ++i) outcome = TryStep(step);
  if (outcome == gwStepAborted) throw std::runtime_error("a training step failed again and again");
  if (outcome == gwStepCommitted) Update(step);
}

// The weights are as before the step unless it is committed, so the same gradients come out again.
gwStepOutcome_t Trainer::TryStep(int64_t step) {
  exchange_.Begin(static_cast<uint64_t>(step));
  const Score score = net_.Forward(batch_);
  net_.Backward(batch_, [&](int layer) {
    if (options_.submit == SubmitTime::kAsap) exchange_.Submit(layer);
  });
  if (options_.submit == SubmitTime::kEnd) {
    for (int layer = net_.layers() - 1; layer >= 0; --layer) exchange_.Submit(layer);
  }
  exchange_.Wait();
  const gwStepOutcome_t outcome = exchange_.End();
  if (outcome == gwStepCommitted) {
    since_last_point_.loss += score.loss;
    images_since_last_point_ += options_.batch;
  }
  return outcome;
}

void Trainer::Update(int64_t step) {
  using Array = Eigen::Map<Eigen::ArrayXf>;
  const auto size = static_cast<Eigen::Index>(momentum_.size());
  Array weights(net_.all_weights().data(), size);
  const Array gradients(net_.all_gradients().data(), size);
  Array momentum(momentum_.data(), size);
  momentum = static_cast<float>(options_.momentum) * momentum + gradients;
  // The rate falls linearly towards zero over the whole run.
  const double left = 1.0 - static_cast<double>(step) / static_cast<double>(total_steps_);
  weights -= static_cast<float>(options_.lr * left) * momentum;
}

EvalPoint Trainer::Evaluate(const TrainingResult& result) {
  double sums[] = {since_last_point_.loss, static_cast<double>(images_since_last_point_)};
  comm_->AllReduce(sums, gwSum);
  double most[] = {train_seconds_, result.sent.transport};
  comm_->AllReduce(most, gwMax);
  const EvalPoint* last = result.points.empty() ? nullptr : &result.points.back();
  const double seconds_since = most[0] - (last ? last->seconds : 0);
  since_last_point_ = {};
  images_since_last_point_ = 0;
  return {
      .step = done_steps_,
      .epoch = static_cast<double>(done_steps_) / static_cast<double>(sampler_.steps_per_epoch()),
      .seconds = most[0],
      .sent_bytes = most[1],
      .loss = sums[1] > 0 ? std::optional(sums[0] / sums[1]) : std::nullopt,
      .accuracy = TestAccuracy(),
      .images_per_second = seconds_since > 0 ? sums[1] / seconds_since : 0};
}

// Each rank takes every world_size-th test image.
double Trainer::TestAccuracy() {
  double correct[] = {0};
  std::vector<int64_t> positions;
  const auto score_positions = [&] {
    Fill(test_, positions);
    correct[0] += static_cast<double>(net_.Forward(batch_).correct);
    positions.clear();
  };
  for (int64_t i = comm_->rank(); i < test_.size(); i += comm_->ranks()) {
    positions.push_back(i);
    if (std::ssize(positions) == kTestBatch) score_positions();
  }
  if (!positions.empty()) score_positions();
  comm_->AllReduce(correct, gwSum);
  return 100.0 * correct[0] / static_cast<double>(test_.size());
}

void Trainer::Fill(const ImageSet& set, const std::vector<int64_t>& positions) {
  batch_.inputs.resize(set.pixels, std::ssize(positions));
  batch_.labels.clear();
  for (Eigen::Index column = 0; column < batch_.inputs.cols(); ++column) {
    const int64_t at = positions[column];
    const Eigen::Map<const Eigen::Array<uint8_t, Eigen::Dynamic, 1>> pixels(
        set.images.data() + at * set.pixels, set.pixels);
    batch_.inputs.col(column) =
        (pixels.cast<float>() * (1.0f / 255.0f) - kPixelMean) * (1.0f / kPixelDeviation);
    batch_.labels.push_back(set.labels[at]);
  }
}

uint64_t Trainer::WeightsDigest() {
  uint64_t hash = 0xcbf29ce484222325u;
  for (std::byte byte : std::as_bytes(net_.all_weights())) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace example
