#include "runtime/operations/raw_operation.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/schedule.h"
#include "runtime/operations/schedule_cache.h"

namespace gradwire {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kSliceElems = 1000;

class RawOperationTest : public testing::Test {
 protected:
  RawOperation Make(const RawOp& op, const std::string& algorithm) {
    const AlgorithmRow* row = *FindAlgorithm(op.collective, algorithm);
    return {op, kSliceElems, row, schedules_.Get(*row, op.root)};
  }

  const RawOp sum_ = {
      .collective = Collective::kAllReduce, .count = 2 * kSliceElems + 1, .world_size = kRanks};
  const RawOp broadcast_ = {.collective = Collective::kBroadcast, .count = 5, .world_size = kRanks};

 private:
  ScheduleCache schedules_{0, kRanks};
};

TEST_F(RawOperationTest, IsCutIntoSlices) {
  const RawOperation operation = Make(sum_, "ring");
  EXPECT_EQ(operation.slices(), 3);
  EXPECT_EQ(operation.Traits().fill, 1);
  EXPECT_EQ(operation.bytes, 4 * (2 * kSliceElems + 1));
}

TEST_F(RawOperationTest, OfNoElementsRunsOnce) {
  RawOp nothing = sum_;
  nothing.count = 0;
  const RawOperation operation = Make(nothing, "ring");
  EXPECT_EQ(operation.slices(), 1);
  EXPECT_EQ(operation.Traits().fill, 0);
}

// Ranks whose frames have one signature sum; those whose texts differ must not.
TEST_F(RawOperationTest, SignaturesDifferWhereTextsDo) {
  struct Change {
    std::string field;  // of the text
    std::function<void(RawOp*)> make;
    std::string algorithm = "ring";
  };
  const Change changes[] = {
      {"count", [](RawOp* op) { ++op->count; }},
      {"datatype", [](RawOp* op) { op->dtype = DType::kInt32; }},
      {"op", [](RawOp* op) { op->op = ReduceOp::kMax; }},
      {"algorithm", [](RawOp* /*op*/) {}, "direct"},
  };
  const RawOperation before = Make(sum_, "ring");
  EXPECT_EQ(before.Signature(), Make(sum_, "ring").Signature());
  for (const Change& change : changes) {
    SCOPED_TRACE(change.field);
    RawOp op = sum_;
    change.make(&op);
    const RawOperation after = Make(op, change.algorithm);
    EXPECT_NE(before.Signature(), after.Signature());
    EXPECT_NE(FindInOpText(before.Text(), change.field), FindInOpText(after.Text(), change.field));
  }
}

TEST_F(RawOperationTest, HasAnotherSignatureFromAnotherRoot) {
  RawOp other = broadcast_;
  other.root = 1;
  const std::string algorithm = "tree";
  const RawOperation before = Make(broadcast_, algorithm), after = Make(other, algorithm);
  EXPECT_NE(before.Signature(), after.Signature());
  EXPECT_EQ(FindInOpText(after.Text(), "root"), "1");
}

}  // namespace
}  // namespace gradwire
