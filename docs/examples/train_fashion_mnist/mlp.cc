#include "docs/examples/train_fashion_mnist/mlp.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace example {

Mlp::Mlp(const std::vector<int>& widths) {
  int64_t offset = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.push_back({.inputs = widths[i], .outputs = widths[i + 1], .offset = offset});
    offset += layers_.back().elems();
  }
  weights_.resize(offset);
  gradients_.resize(offset);
  outputs_.resize(layers_.size());
}

std::span<float> Mlp::Slice(std::vector<float>* all, int layer) {
  const Layer& at = layers_[layer];
  return std::span(*all).subspan(at.offset, at.elems());
}

Mlp::Matrix Mlp::MatrixOf(std::vector<float>* all, int layer) {
  const Layer& at = layers_[layer];
  return Matrix(all->data() + at.offset, at.outputs, at.inputs);
}

Mlp::Vector Mlp::BiasOf(std::vector<float>* all, int layer) {
  const Layer& at = layers_[layer];
  return Vector(all->data() + at.offset + at.matrix_elems(), at.outputs);
}

// Not std::uniform_real_distribution, whose numbers depend on the standard library.
void Mlp::Initialise(uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < layers(); ++i) {
    const float limit = std::sqrt(6.0f / static_cast<float>(layers_[i].inputs));
    const auto matrix = weights(i).first(layers_[i].matrix_elems());
    for (float& w : matrix) {
      w = limit * (static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f);
    }
    BiasOf(&weights_, i).setZero();
  }
}

Score Mlp::Forward(const Batch& batch) {
  const int last = layers() - 1;
  for (int i = 0; i <= last; ++i) {
    const Eigen::MatrixXf& in = i == 0 ? batch.inputs : outputs_[i - 1];
    Eigen::MatrixXf& out = outputs_[i];
    out.noalias() = MatrixOf(&weights_, i) * in;
    out.colwise() += BiasOf(&weights_, i);
    if (i < last) out = out.cwiseMax(0.0f);
  }
  Score score;
  for (Eigen::Index column = 0; column < outputs_[last].cols(); ++column) {
    auto logits = outputs_[last].col(column);
    const int label = batch.labels[column];
    Eigen::Index best;
    const float top = logits.maxCoeff(&best);
    // Softmax of differences to the largest logit: exp cannot overflow.
    logits = (logits.array() - top).exp();
    logits /= logits.sum();
    score.loss -= std::log(std::max(logits(label), 1e-30f));
    score.correct += best == label ? 1 : 0;
  }
  return score;
}

void Mlp::Backward(const Batch& batch, const std::function<void(int layer)>& on_gradient) {
  // d loss / d logits = probabilities - one-hot label, averaged over the batch.
  Eigen::MatrixXf delta = outputs_.back();
  for (Eigen::Index column = 0; column < delta.cols(); ++column) {
    delta(batch.labels[column], column) -= 1.0f;
  }
  delta /= static_cast<float>(delta.cols());

  for (int i = layers() - 1; i >= 0; --i) {
    const Eigen::MatrixXf& in = i == 0 ? batch.inputs : outputs_[i - 1];
    MatrixOf(&gradients_, i).noalias() = delta * in.transpose();
    BiasOf(&gradients_, i) = delta.rowwise().sum();
    on_gradient(i);
    if (i == 0) break;
    // ReLU lets the gradient through where its output is positive.
    const Eigen::MatrixXf back = MatrixOf(&weights_, i).transpose() * delta;
    delta = (in.array() > 0.0f).select(back, 0.0f);
  }
}

}  // namespace example
