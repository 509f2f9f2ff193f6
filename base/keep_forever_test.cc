#include "base/keep_forever.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace gradwire {
namespace {

TEST(KeepForever, HandsNothingBack) {
  auto memory = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = memory;
  KeepForever(std::move(memory));
  ASSERT_FALSE(watched.expired());
  EXPECT_EQ(*watched.lock(), 7);
}

}  // namespace
}  // namespace gradwire
