#include "base/view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gradwire {
namespace {

TEST(View, DefaultIsEmptyHostMemory) {
  const View view;
  EXPECT_TRUE(view.empty());
  EXPECT_EQ(view.bytes(), 0);
  EXPECT_EQ(view.memory, MemoryKind::kHost);
  EXPECT_EQ(view.device, kNoDevice);
  EXPECT_TRUE(ConstView().empty());
  EXPECT_TRUE(Bytes().empty());
  EXPECT_TRUE(ConstBytes().empty());
}

TEST(View, SubCountsElements) {
  std::vector<float> values = {0, 1, 2, 3, 4};
  const View view = FloatView(values.data(), 5);
  const View middle = view.Sub(1, 3);
  EXPECT_EQ(middle.elems, 3);
  EXPECT_EQ(middle.bytes(), 12);
  EXPECT_EQ(middle.as<float>()[0], 1);
  EXPECT_EQ(middle.Sub(2, 1).as<float>()[0], 3);
  EXPECT_TRUE(view.Sub(5, 0).empty());
  middle.as<float>()[1] = 20;
  EXPECT_EQ(values[2], 20);
  const ConstView read = ConstView(view).Sub(2, 1);
  EXPECT_EQ(read.as<float>()[0], 20);
  EXPECT_EQ(read.bytes(), 4);
}

TEST(View, BytesAreElementsTimesSize) {
  std::vector<uint16_t> values = {0x0102, 0x0304, 0x0506};
  const View view = {reinterpret_cast<std::byte*>(values.data()), 3, DType::kBfloat16};
  EXPECT_EQ(view.AsBytes().size, 6);
  EXPECT_EQ(view.AsBytes().data, view.data);
  EXPECT_EQ(view.AsBytes().Sub(2, 4).data, view.data + 2);
  EXPECT_EQ(ConstView(view).AsBytes().Sub(4, 1).size, 1);
  EXPECT_EQ(ConstView(view).AsBytes().Sub(4, 1).data[0], std::byte{0x06});
}

TEST(View, PlaceTravelsAlong) {
  std::byte memory[64];
  const View view = {memory, 8, DType::kFloat64, MemoryKind::kCuda, 3};
  const ConstView read = view;
  const ConstBytes bytes = view.Sub(1, 2).AsBytes();
  EXPECT_EQ(read.memory, MemoryKind::kCuda);
  EXPECT_EQ(read.Sub(1, 1).device, 3);
  EXPECT_EQ(bytes.memory, MemoryKind::kCuda);
  EXPECT_EQ(bytes.device, 3);
  EXPECT_EQ(bytes.Sub(1, 1).device, 3);
  EXPECT_EQ(bytes.data, memory + 8);
  EXPECT_EQ(bytes.size, 16);
}

TEST(View, OfConstFloats) {
  const std::vector<float> values = {1, 2};
  const ConstView view = FloatView(values.data(), 2);
  EXPECT_EQ(view.dtype, DType::kFloat32);
  EXPECT_EQ(view.as<float>(), values.data());
}

}  // namespace
}  // namespace gradwire
