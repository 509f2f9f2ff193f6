// Fashion-MNIST from Debian's dataset-fashion-mnist, and the order in which ranks see it.
#ifndef GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_FASHION_DATA_H_
#define GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_FASHION_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

namespace example {

inline constexpr int kClasses = 10;

// Grey images of `pixels` bytes each, one after the other, and their classes.
struct ImageSet {
  int pixels = 0;
  std::vector<uint8_t> images;
  std::vector<uint8_t> labels;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// Reads FOLDER/PREFIX-images-idx3-ubyte.gz and FOLDER/PREFIX-labels-idx1-ubyte.gz; PREFIX is
// "train" or "t10k". Throws std::runtime_error that names the file and, where it is not there, the
// package.
ImageSet LoadImages(const std::string& folder, const std::string& prefix);

// Which images a rank trains on. All ranks shuffle alike, each epoch anew, and take adjacent
// pieces: no image is seen twice in an epoch. What does not fill a batch of all ranks is left out.
class ShardedSampler {
 public:
  struct Shape {
    int64_t images = 0;
    int batch = 0;  // per rank
    int rank = 0;
    int ranks = 1;
    uint64_t seed = 0;
  };

  explicit ShardedSampler(const Shape& shape);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // Positions of this rank's images of a training step, counted from 0 over all epochs. Valid until
  // the next call.
  const std::vector<int64_t>& Batch(int64_t step);

 private:
  void Shuffle(int64_t epoch);

  Shape shape_;
  int64_t steps_per_epoch_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
  std::vector<int64_t> batch_;
};

}  // namespace example

#endif  // GRADWIRE_DOCS_EXAMPLES_TRAIN_FASHION_MNIST_FASHION_DATA_H_
