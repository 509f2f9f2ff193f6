#include "compress/codecs/topk/index_union.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "base/rng.h"
#include "base/workspace.h"

namespace gradwire {
namespace {

// The first and the last bit of a word, and of the last one, are among them.
TEST(IndexUnion, ListsWhatWasAddedAndFindsItThere) {
  RandomStream random(3);
  for (const int64_t elems : {1, 63, 64, 65, 128, 1000}) {
    SCOPED_TRACE(elems);
    AlignedBuffer memory;
    ASSERT_TRUE(memory.EnsureBytes(IndexUnion::BytesFor(elems)).ok());
    IndexUnion all(memory.bytes(), elems);
    std::set<uint32_t> expected = {0, static_cast<uint32_t>(elems - 1)};
    for (const uint32_t index : {63u, 64u, 127u}) {
      if (index < elems) expected.insert(index);
    }
    for (int64_t i = 0; i < elems / 3; ++i) {
      expected.insert(static_cast<uint32_t>(random.Below(static_cast<uint64_t>(elems))));
    }
    const std::vector<uint32_t> added(expected.begin(), expected.end());
    all.Add(added);
    all.Add({added.data(), 1});
    std::vector<uint32_t> listed(added.size());
    ASSERT_EQ(all.ListInto(listed.data()), added.size());
    EXPECT_EQ(listed, added);
    for (uint32_t i = 0; i < added.size(); ++i) EXPECT_EQ(all.PositionOf(added[i]), i);
  }
}

}  // namespace
}  // namespace gradwire
