#include "docs/examples/train_fashion_mnist/fashion_data.h"

#include <zlib.h>

#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace example {
namespace {

// The third byte of the magic number says the element type (8: unsigned bytes), the fourth the
// number of dimensions; big-endian lengths follow.
constexpr uint32_t kUnsignedBytes = 8;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

class GzipFile {
 public:
  explicit GzipFile(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (!file_) {
      throw std::runtime_error(path_ + ": cannot open it (apt-get install dataset-fashion-mnist)");
    }
  }

  void Read(uint8_t* out, uint64_t bytes) {
    if (gzread(file_.get(), out, static_cast<unsigned>(bytes)) != static_cast<int>(bytes)) {
      throw std::runtime_error(path_ + ": shorter than its header says, or damaged");
    }
  }

  uint32_t ReadBigEndian() {
    uint8_t b[4];
    Read(b, 4);
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

struct IdxArray {
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};

IdxArray ReadIdx(const std::string& path, uint32_t dimensions) {
  GzipFile file(path);
  if (file.ReadBigEndian() != (kUnsignedBytes << 8 | dimensions)) {
    throw std::runtime_error(path + ": no IDX file of unsigned bytes with the right dimensions");
  }
  IdxArray array;
  uint64_t bytes = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(file.ReadBigEndian());
    bytes *= array.shape.back();
    if (bytes > kMaxBytes) throw std::runtime_error(path + ": larger than 1 GiB");
  }
  array.bytes.resize(bytes);
  file.Read(array.bytes.data(), bytes);
  return array;
}

}  // namespace

ImageSet LoadImages(const std::string& folder, const std::string& prefix) {
  const std::string stem = folder + "/" + prefix;
  IdxArray images = ReadIdx(stem + "-images-idx3-ubyte.gz", 3);
  IdxArray labels = ReadIdx(stem + "-labels-idx1-ubyte.gz", 1);
  if (images.shape[0] != labels.shape[0]) {
    throw std::runtime_error(stem + ": not as many labels as images");
  }
  for (uint8_t label : labels.bytes) {
    if (label >= kClasses) throw std::runtime_error(stem + ": a label above 9");
  }
  return {.pixels = static_cast<int>(images.shape[1] * images.shape[2]),
          .images = std::move(images.bytes),
          .labels = std::move(labels.bytes)};
}

ShardedSampler::ShardedSampler(const Shape& shape)
    : shape_(shape), steps_per_epoch_(shape.images / (int64_t{shape.batch} * shape.ranks)) {
  if (steps_per_epoch_ == 0) throw std::runtime_error("the batch is larger than the data set");
  order_.resize(shape.images);
  batch_.resize(shape.batch);
}

const std::vector<int64_t>& ShardedSampler::Batch(int64_t step) {
  const int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) Shuffle(epoch);
  const int64_t in_epoch = step % steps_per_epoch_;
  const int64_t first = (in_epoch * shape_.ranks + shape_.rank) * shape_.batch;
  batch_.assign(order_.begin() + first, order_.begin() + first + shape_.batch);
  return batch_;
}

// Fisher-Yates by hand: std::shuffle may differ between standard libraries, and all ranks must
// agree.
void ShardedSampler::Shuffle(int64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  std::mt19937_64 random(shape_.seed * 1'000'003 + static_cast<uint64_t>(epoch));
  for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random() % (i + 1)]);
}

}  // namespace example
