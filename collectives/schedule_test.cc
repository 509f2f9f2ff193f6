#include "collectives/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire {
namespace {

std::vector<int32_t> Deps(const Schedule& schedule, int32_t step) {
  const std::span<const int32_t> deps = schedule.DepsOf(schedule.steps[step]);
  return {deps.begin(), deps.end()};
}

TEST(EvenPartitionTest, CutsAtQuantaAndGivesTheRestToTheLast) {
  EXPECT_EQ(EvenPartition(10, 4).begin, (std::vector<int64_t>{0, 3, 6, 8, 10}));
  EXPECT_EQ(EvenPartition(3, 4).begin, (std::vector<int64_t>{0, 1, 2, 3, 3}));
  EXPECT_EQ(EvenPartition(0, 3).begin, (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(EvenPartition(300, 2, 256).begin, (std::vector<int64_t>{0, 256, 300}));
  EXPECT_EQ(EvenPartition(1000, 3, 256).begin, (std::vector<int64_t>{0, 256, 512, 1000}));
}

TEST(EvenPartitionTest, CoversEverythingInOrderAndEvenly) {
  for (int64_t elems : {0, 1, 7, 255, 256, 257, 4096, 100003}) {
    for (int32_t shards : {1, 2, 3, 7, 16, 65}) {
      for (int64_t quantum : {1, 16, 256}) {
        const Partition p = EvenPartition(elems, shards, quantum);
        ASSERT_EQ(p.shards(), shards);
        EXPECT_EQ(p.begin.front(), 0);
        EXPECT_EQ(p.begin.back(), elems);
        for (int32_t l = 0; l < shards; ++l) {
          EXPECT_GE(p.elems(l), 0);
          EXPECT_LT(p.elems(l), elems / quantum / shards * quantum + 2 * quantum);
          if (l > 0) {
            EXPECT_EQ(p.begin[l] % quantum, 0);
          }
        }
      }
    }
  }
}

TEST(EvenPartitionTest, HugeArraysDoNotOverflow) {
  const int64_t elems = int64_t{1} << 60;
  const Partition p = EvenPartition(elems, 65536);
  EXPECT_EQ(p.elems(65535), elems / 65536);
}

class BuilderTest : public testing::Test {
 protected:
  ScheduleBuilder builder_{Collective::kAllReduce, 0, 4, 0, 4};
  const uint8_t input_ = builder_.AddBuffer(BufferRole::kInput, {0, 1, 2, 3});
  const uint8_t output_ = builder_.AddBuffer(BufferRole::kOutput, {0, 1, 2, 3});
  const uint8_t scratch_ = builder_.AddBuffer(BufferRole::kScratch, {2, 2});
};

TEST_F(BuilderTest, ReadersFollowTheWriter) {
  const int32_t recv = builder_.Recv(1, 0, 0, {scratch_, 0, 1});
  const int32_t send = builder_.Send(2, 0, 1, {scratch_, 0, 1});
  const int32_t copy = builder_.Local(StepKind::kCopy, 1, {scratch_, 0, 1}, {output_, 2, 1});
  const Schedule s = std::move(builder_).Build("test");
  EXPECT_TRUE(Deps(s, recv).empty());
  EXPECT_EQ(Deps(s, send), std::vector<int32_t>{recv});
  EXPECT_EQ(Deps(s, copy), std::vector<int32_t>{recv});
}

TEST_F(BuilderTest, WriterFollowsReadersAndTheLastWriter) {
  const int32_t recv = builder_.Recv(1, 0, 0, {scratch_, 0, 1});
  const int32_t send = builder_.Send(2, 0, 1, {scratch_, 0, 1});
  const int32_t again = builder_.Recv(1, 1, 2, {scratch_, 0, 1});
  const Schedule s = std::move(builder_).Build("test");
  EXPECT_EQ(Deps(s, again), (std::vector<int32_t>{recv, send}));
}

TEST_F(BuilderTest, StepThatReadsWhatItWritesDoesNotDependOnItself) {
  const int32_t recv = builder_.Recv(1, 0, 0, {scratch_, 0, 1});
  const int32_t add = builder_.RecvReduce(2, 0, 0, {scratch_, 0, 1}, {scratch_, 0, 1});
  const Schedule s = std::move(builder_).Build("test");
  EXPECT_EQ(Deps(s, add), std::vector<int32_t>{recv});
}

TEST_F(BuilderTest, InputAndOutputOfOneNumberAreOneMemory) {
  const int32_t send = builder_.Send(1, 0, 0, {input_, 3, 1});
  const int32_t other = builder_.Recv(1, 0, 1, {output_, 2, 1});
  const int32_t same = builder_.Recv(1, 1, 1, {output_, 3, 1});
  const Schedule s = std::move(builder_).Build("test");
  EXPECT_TRUE(Deps(s, other).empty());
  EXPECT_EQ(Deps(s, same), std::vector<int32_t>{send});
}

TEST_F(BuilderTest, ScratchShardsOfOneNumberAreApart) {
  builder_.Recv(1, 0, 0, {scratch_, 0, 1});
  const int32_t other = builder_.Recv(2, 0, 0, {scratch_, 1, 1});
  EXPECT_TRUE(Deps(std::move(builder_).Build("test"), other).empty());
}

TEST(BuilderOfAllToAllTest, ItsArraysAreApart) {
  ScheduleBuilder builder(Collective::kAllToAll, 0, 2, 0, 2);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0, 1});
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {0, 1});
  builder.Send(1, 0, 0, {input, 1, 1});
  const int32_t recv = builder.Recv(1, 0, 0, {output, 1, 1});
  EXPECT_TRUE(Deps(std::move(builder).Build("test"), recv).empty());
}

TEST_F(BuilderTest, OrderAddsADependencyOnce) {
  const int32_t recv = builder_.Recv(1, 0, 0, {});
  const int32_t send = builder_.Send(2, 0, 1, {});
  builder_.Order(recv, send);
  builder_.Order(recv, send);
  EXPECT_EQ(Deps(std::move(builder_).Build("test"), send), std::vector<int32_t>{recv});
}

uint64_t HashOf(std::string_view algorithm, Collective collective, int rank, int n, int root) {
  return ScheduleBuilder(collective, rank, n, root, n).Build(algorithm).hash;
}

TEST(ScheduleHashTest, CoversWhatRanksMustAgreeOn) {
  const uint64_t hash = HashOf("ring", Collective::kAllReduce, 0, 4, 0);
  EXPECT_EQ(hash, HashOf("ring", Collective::kAllReduce, 3, 4, 0));
  EXPECT_NE(hash, HashOf("direct", Collective::kAllReduce, 0, 4, 0));
  EXPECT_NE(hash, HashOf("ring", Collective::kAllGather, 0, 4, 0));
  EXPECT_NE(hash, HashOf("ring", Collective::kAllReduce, 0, 5, 0));
  EXPECT_NE(hash, HashOf("ring", Collective::kAllReduce, 0, 4, 1));
}

}  // namespace
}  // namespace gradwire
