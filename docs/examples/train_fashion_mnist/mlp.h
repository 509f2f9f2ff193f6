// A multi-layer perceptron in plain fp32: ReLU between the layers, softmax and cross entropy at the
// end. One thread.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_MLP_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_MLP_H_

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace example {

// A batch as the network sees it: one image per column, and one class per image.
struct Batch {
  Eigen::MatrixXf inputs;
  std::vector<uint8_t> labels;
};

// Sums over a batch.
struct Score {
  double loss = 0;
  int64_t correct = 0;
};

class Mlp {
 public:
  // widths: inputs, hidden layers, classes.
  explicit Mlp(const std::vector<int>& widths);

  // Uniform weights of variance 2 / inputs (He et al. 2015), biases zero.
  void Initialise(uint64_t seed);

  int layers() const { return static_cast<int>(layers_.size()); }
  int outputs(int layer) const { return layers_[layer].outputs; }
  // Weights of a layer (column major, outputs x inputs), then its biases as one more column: one
  // array.
  std::span<float> weights(int layer) { return Slice(&weights_, layer); }
  std::span<float> gradient(int layer) { return Slice(&gradients_, layer); }
  // All layers, one after the other.
  std::span<float> all_weights() { return weights_; }
  std::span<float> all_gradients() { return gradients_; }

  Score Forward(const Batch& batch);
  // Gradient of the batch's mean loss; after Forward of the same batch. Calls on_gradient(layer),
  // last layer first, as soon as gradient(layer) is complete.
  void Backward(const Batch& batch, const std::function<void(int layer)>& on_gradient);

 private:
  using Matrix = Eigen::Map<Eigen::MatrixXf>;
  using Vector = Eigen::Map<Eigen::VectorXf>;
  struct Layer {
    int inputs = 0;
    int outputs = 0;
    int64_t offset = 0;  // of its first weight
    int64_t matrix_elems() const { return int64_t{inputs} * outputs; }
    int64_t elems() const { return matrix_elems() + outputs; }
  };

  std::span<float> Slice(std::vector<float>* all, int layer);
  Matrix MatrixOf(std::vector<float>* all, int layer);
  Vector BiasOf(std::vector<float>* all, int layer);

  std::vector<Layer> layers_;
  std::vector<float> weights_;
  std::vector<float> gradients_;
  std::vector<Eigen::MatrixXf> outputs_;  // of each layer, after its ReLU; the last: probabilities
};

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_MLP_H_
