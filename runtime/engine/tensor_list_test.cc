#include "runtime/engine/tensor_list.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr int64_t kRoom = 1000;

using Values = std::vector<std::pair<int, std::string>>;

std::string Text(const TensorList& list, int64_t max_bytes = kRoom) {
  return EncodeTensorList(list, max_bytes);
}

TEST(TensorList, NamesWhatIsMissingExtraOrOtherwise) {
  const TensorListDifference d =
      CompareTensorLists({Text({{"a", "[2] float"}, {"b", "[2,3] float"}, {"c", "[] half"}}),
                          Text({{"a", "[2] float"}, {"b", "[3,2] float"}, {"c", "[] half"}}),
                          Text({{"a", "[2] float"}, {"d", "[1] float"}})});
  EXPECT_EQ(d.names, (std::vector<std::string>{"b", "c", "d"}));
  EXPECT_EQ(d.first,
            (Values{{0, "tensor b [2,3] float"}, {1, "tensor b [3,2] float"}, {2, "no tensor b"}}));
}

TEST(TensorList, SameListsDoNotDiffer) {
  EXPECT_TRUE(CompareTensorLists({Text({}), Text({})}).names.empty());
  EXPECT_TRUE(CompareTensorLists({Text({{"a", "x"}}), Text({{"a", "x"}})}).names.empty());
  EXPECT_TRUE(CompareTensorLists({}).names.empty());
}

TEST(TensorList, AnEmptyListIsAWordToo) {
  EXPECT_FALSE(Text({}).empty());
  const TensorListDifference d = CompareTensorLists({Text({}), Text({{"a", "[2] float"}})});
  EXPECT_EQ(d.first, (Values{{0, "no tensor a"}, {1, "tensor a [2] float"}}));
}

TensorList Many(int count) {
  TensorList list;
  for (int i = 0; i < count; ++i) list.emplace_back("w" + std::to_string(1000 + i), "[5] float");
  return list;
}

TEST(TensorList, KeepsWithinItsRoomAndToTheLast) {
  const int64_t line = static_cast<int64_t>(Text(Many(1)).size());
  EXPECT_EQ(Text(Many(20), 20 * line).size(), static_cast<size_t>(20 * line));
  for (int64_t room = 32; room < 20 * line; ++room) {
    EXPECT_LE(static_cast<int64_t>(Text(Many(20), room).size()), room);
  }
}

TEST(TensorList, WhatWasLeftOutIsNotMissing) {
  const TensorList all = Many(40);
  EXPECT_TRUE(CompareTensorLists({Text(all, 300), Text(all), Text(all, 32)}).names.empty());
  TensorList other = all;
  other[2].second = "[6] float";
  EXPECT_EQ(CompareTensorLists({Text(all, 300), Text(other, 200)}).names,
            std::vector<std::string>{"w1002"});
  other = all;
  other.erase(other.begin());
  EXPECT_EQ(CompareTensorLists({Text(other, 200), Text(all, 300)}).names,
            std::vector<std::string>{"w1000"});
}

}  // namespace
}  // namespace gradwire
