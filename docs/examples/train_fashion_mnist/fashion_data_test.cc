#include "docs/examples/train_fashion_mnist/fashion_data.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {
namespace {

void WriteGzip(const std::string& path, const std::vector<uint8_t>& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  gzclose(file);
}

std::vector<uint8_t> Join(std::vector<uint8_t> a, const std::vector<uint8_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class LoadImagesTest : public testing::Test {
 protected:
  void Write(const std::vector<uint8_t>& images, const std::vector<uint8_t>& labels) {
    WriteGzip(folder_ + "/train-images-idx3-ubyte.gz", images);
    WriteGzip(folder_ + "/train-labels-idx1-ubyte.gz", labels);
  }
  const std::string folder_ = testing::TempDir();
  // Two images of 1 x 3, two labels.
  const std::vector<uint8_t> image_head_ = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3};
  const std::vector<uint8_t> label_head_ = {0, 0, 8, 1, 0, 0, 0, 2};
};

TEST_F(LoadImagesTest, ReadsImagesAndLabels) {
  Write(Join(image_head_, {1, 2, 3, 4, 5, 6}), Join(label_head_, {7, 9}));
  const ImageSet set = LoadImages(folder_, "train");
  EXPECT_EQ(set.pixels, 3);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.images, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(set.labels, (std::vector<uint8_t>{7, 9}));
}

TEST_F(LoadImagesTest, RefusesDamagedFiles) {
  Write(Join(image_head_, {1, 2, 3, 4, 5}), Join(label_head_, {7, 9}));
  EXPECT_THROW(LoadImages(folder_, "train"), std::runtime_error) << "one byte short";
  Write(Join(image_head_, {1, 2, 3, 4, 5, 6}), Join(label_head_, {7, 10}));
  EXPECT_THROW(LoadImages(folder_, "train"), std::runtime_error) << "label 10";
  Write(Join(label_head_, {7, 9}), Join(label_head_, {7, 9}));
  EXPECT_THROW(LoadImages(folder_, "train"), std::runtime_error) << "labels as images";
  Write({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 1}, {});
  EXPECT_THROW(LoadImages(folder_, "train"), std::runtime_error) << "absurd lengths";
}

TEST_F(LoadImagesTest, NamesThePackageOfAMissingFile) {
  try {
    LoadImages(folder_ + "/nowhere", "train");
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("dataset-fashion-mnist"), std::string::npos);
  }
}

TEST(ShardedSamplerTest, RanksShareAnEpochWithoutOverlap) {
  constexpr int kRanks = 3, kBatch = 4, kImages = 50;
  std::set<int64_t> seen;
  for (int rank = 0; rank < kRanks; ++rank) {
    ShardedSampler sampler(
        {.images = kImages, .batch = kBatch, .rank = rank, .ranks = kRanks, .seed = 1});
    ASSERT_EQ(sampler.steps_per_epoch(), 4);
    for (int step = 4; step < 8; ++step) {
      for (int64_t i : sampler.Batch(step)) {
        EXPECT_TRUE(seen.insert(i).second) << "image " << i << " twice";
        EXPECT_TRUE(0 <= i && i < kImages);
      }
    }
  }
  EXPECT_EQ(seen.size(), 48u);
}

TEST(ShardedSamplerTest, EpochsAndSeedsDiffer) {
  const ShardedSampler::Shape shape{.images = 1000, .batch = 100, .seed = 1};
  ShardedSampler::Shape other_seed = shape;
  other_seed.seed = 2;
  ShardedSampler a(shape), b(shape), c(other_seed);
  const std::vector<int64_t> first = a.Batch(0);
  EXPECT_EQ(first, b.Batch(0));
  EXPECT_NE(first, a.Batch(10));
  EXPECT_NE(first, c.Batch(0));
  EXPECT_EQ(first, a.Batch(0)) << "going back gives the same order";
}

}  // namespace
}  // namespace example
